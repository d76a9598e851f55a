/* SPDX-License-Identifier: Apache-2.0 */
void app_main(void);

int main(void)
{
    app_main();
    return 0;
}
