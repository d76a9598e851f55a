# SPDX-License-Identifier: Apache-2.0
"""`python -m tinyc`: the command, where its script is not on the path."""

from tinyc.cli.main import main

if __name__ == "__main__":
    main()
