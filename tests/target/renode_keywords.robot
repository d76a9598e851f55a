*** Settings ***
Library    renode_keywords.py


*** Keywords ***
Setup
    Reset Emulation

Teardown
    No Operation

Test Teardown
    No Operation
