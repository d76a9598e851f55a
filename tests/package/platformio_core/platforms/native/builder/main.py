# SPDX-License-Identifier: Apache-2.0
"""Builds a program for this computer with gcc, and runs it."""

from SCons.Script import AlwaysBuild, Default, DefaultEnvironment

env = DefaultEnvironment()
env.Replace(CC="gcc", CXX="g++", LINK="g++", AR="ar", RANLIB="ranlib")
program = env.BuildProgram()
AlwaysBuild(env.Alias("exec", program, env.VerboseAction("$BUILD_DIR/${PROGNAME}", "Executing")))
Default([program])
