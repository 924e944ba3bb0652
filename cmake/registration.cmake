# SPDX-License-Identifier: Apache-2.0
# A test that is not built proves nothing. So every *_test.cc and *_fuzz.cc in the tree must belong to a target, or
# configuration fails (with BONSAI_WERROR, as in the presets; else it warns). CONFIGURE_DEPENDS makes a plain build
# notice new files, too.

# bonsai_all_targets(OUT): every target that the tree defines, of all folders.
function(bonsai_all_targets out)
  set(folders ${PROJECT_SOURCE_DIR})
  set(found)
  while(folders)
    list(POP_FRONT folders folder)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    list(APPEND found ${targets})
    list(APPEND folders ${below})
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# bonsai_require_registration(ROOM...): fails when a test or fuzz file below one of the rooms has no target.
function(bonsai_require_registration)
  if(BONSAI_WERROR)
    set(severity SEND_ERROR)
  else()
    set(severity WARNING)
  endif()
  bonsai_all_targets(targets)
  set(registered)
  foreach(target IN LISTS targets)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE)
      list(APPEND registered ${source})
    endforeach()
  endforeach()

  foreach(room IN LISTS ARGN)
    set(folder ${PROJECT_SOURCE_DIR}/${room})
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${folder}/*_test.cc ${folder}/*_test.c ${folder}/*_fuzz.cc)
    if(NOT BONSAI_STUDIES)
      list(FILTER files EXCLUDE REGEX "/bench/studies/")  # this build leaves them out
    endif()
    foreach(file IN LISTS files)
      if(NOT file IN_LIST registered)
        cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
        message(${severity} "${name} is registered with no target, so it would never run. Name it in "
                "${room}/CMakeLists.txt with bonsai_test(... SOURCES ...) or bonsai_fuzz(...), or delete it.")
      endif()
    endforeach()
  endforeach()
endfunction()
