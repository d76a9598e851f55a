# SPDX-License-Identifier: Apache-2.0
"""From samples, or a camera's frame, to a model's input: a front end as a graph of operators before the model, and as a
function of NumPy arrays with the same integers.

`load_frontend` reads what `--frontend` names, `join` puts it before a model, `.features` is the function. `load_camera`
reads what `--picture` names.
"""

from tinyc.frontend.camera import Camera
from tinyc.frontend.camera_settings import load_camera
from tinyc.frontend.declared import Declared
from tinyc.frontend.front import FrontEnd
from tinyc.frontend.join import Joined, features_of, join
from tinyc.frontend.join_camera import join_camera
from tinyc.frontend.micro import Micro
from tinyc.frontend.motion import MotionFront
from tinyc.frontend.raw import RawFront
from tinyc.frontend.settings import load_frontend

__all__ = [
    "Camera",
    "Declared",
    "FrontEnd",
    "Joined",
    "Micro",
    "MotionFront",
    "RawFront",
    "features_of",
    "join",
    "join_camera",
    "load_camera",
    "load_frontend",
]
