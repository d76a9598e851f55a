# SPDX-License-Identifier: Apache-2.0
# As much of ESP-IDF's build system as an application and its components use, for a program of this computer.
get_filename_component(STAND_IN ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
include($ENV{SDKCONFIG_FOLDER}/sdkconfig.cmake)

macro(idf_component_register)
  cmake_parse_arguments(given "" "" "SRCS;INCLUDE_DIRS;REQUIRES" ${ARGN})
  add_library(${COMPONENT_LIB} STATIC ${given_SRCS})
  target_compile_options(${COMPONENT_LIB} PRIVATE -D_GNU_SOURCE)
  target_include_directories(${COMPONENT_LIB} PUBLIC ${given_INCLUDE_DIRS} ${STAND_IN}/include $ENV{SDKCONFIG_FOLDER})
endmacro()

# A component is called as its folder; main, which names no others, has them all.
macro(project name)
  _project(${name} C)
  set(components)
  foreach(folder ${EXTRA_COMPONENT_DIRS} main)
    get_filename_component(folder ${folder} ABSOLUTE)
    get_filename_component(component ${folder} NAME)
    set(COMPONENT_LIB __idf_${component})
    add_subdirectory(${folder} esp-idf/${component})
    list(APPEND components ${COMPONENT_LIB})
  endforeach()
  list(REMOVE_ITEM components __idf_main)
  target_link_libraries(__idf_main PUBLIC ${components})
  add_executable(app ${STAND_IN}/main.c)
  target_link_libraries(app PRIVATE __idf_main)
endmacro()
