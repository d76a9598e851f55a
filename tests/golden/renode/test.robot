# SPDX-License-Identifier: 0BSD
*** Comments ***
Regression test of toy on stm32f4-discovery, made by tinyc: renode-test test.robot


*** Settings ***
Suite Setup       Setup
Suite Teardown    Teardown
Test Setup        Reset Emulation
Test Teardown     Test Teardown
# Of this computer's time. A core that runs out of its memories stops Renode's time, and with it the limits of the lines.
Test Timeout      160 seconds
Resource          ${RENODEKEYWORDS}


*** Variables ***
${CONSOLE}        sysbus.console
${SECONDS}        10
# Of the first inference, counted by QEMU. The counter of Renode may be off by the length of a block.
${INSTRUCTIONS}   1234
${TOLERANCE}      200


*** Keywords ***
Start Firmware
    Execute Script            ${CURDIR}/run.resc
    Create Log Tester         1
    Create Terminal Tester    ${CONSOLE}    timeout=${SECONDS}
    Register Failing Uart String    HARDFAULT


*** Test Cases ***
Should Compute The Reference Outputs
    Start Firmware
    Wait For Line On Uart     inference 0 status 0 guards intact
    Wait For Line On Uart     inference 0 output 0 at 0: fe807f801380f85a4d
    Wait For Line On Uart     inference 0 output 1 at 0: 8080808080
    Wait For Line On Uart     inference 1 status 0 guards intact
    Wait For Line On Uart     inference 1 output 0 at 0: 027f807fed7f08a7b4
    Wait For Line On Uart     inference 1 output 1 at 0: 7f7f7f7f7f
    Wait For Line On Uart     inference 2 status 0 guards intact
    Wait For Line On Uart     inference 2 output 0 at 0: 42807f8071c15f196e
    Wait For Line On Uart     inference 2 output 1 at 0: 80807f7f7f
    Wait For Line On Uart     all done

Should Execute As Many Instructions
    Start Firmware
    ${found}=    Wait For Line On Uart    content=inference 0 stack (\\d+) ticks (\\d+)    treatAsRegex=true
    Should Be True            abs(${found.Groups[1]} - ${INSTRUCTIONS}) <= ${TOLERANCE}

Should Stay In Its Memories
    Start Firmware
    Wait For Line On Uart     all done
    Should Not Be In Log      non existing peripheral    timeout=0
