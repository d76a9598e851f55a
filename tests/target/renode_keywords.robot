# SPDX-License-Identifier: Apache-2.0
*** Settings ***
Library    renode_keywords.py


*** Keywords ***
Setup
    Reset Emulation

Teardown
    No Operation

Test Teardown
    No Operation
