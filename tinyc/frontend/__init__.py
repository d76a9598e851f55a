# SPDX-License-Identifier: Apache-2.0
"""From samples to a model's input: a front end as a graph of signal operators before the model, and as a function of
NumPy arrays with the same integers.

`load_frontend` reads what `--frontend` names, `join` puts it before a model, `.features` is the function.
"""

from tinyc.frontend.declared import Declared
from tinyc.frontend.join import Joined, join
from tinyc.frontend.micro import Micro
from tinyc.frontend.settings import FrontEnd, load_frontend

__all__ = ["Declared", "FrontEnd", "Joined", "Micro", "join", "load_frontend"]
