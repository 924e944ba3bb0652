# SPDX-License-Identifier: Apache-2.0
# The files that `cmake --install` installs: the headers, libbonsai.so, the programs, and the files for
# find_package(bonsai) and pkg-config. store/CMakeLists.txt makes the library.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(BONSAI_SANITIZE)
  return()
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/bonsai)
configure_package_config_file(cmake/bonsaiConfig.cmake.in ${CMAKE_BINARY_DIR}/bonsaiConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/bonsaiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH include_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/bonsai.pc.in ${CMAKE_BINARY_DIR}/bonsai.pc @ONLY)

install(TARGETS bonsai_library EXPORT bonsaiTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT bonsaiTargets NAMESPACE bonsai:: DESTINATION ${package_folder})
install(FILES ${CMAKE_BINARY_DIR}/bonsaiConfig.cmake ${CMAKE_BINARY_DIR}/bonsaiConfigVersion.cmake
        DESTINATION ${package_folder})
install(FILES ${CMAKE_BINARY_DIR}/bonsai.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/bonsai DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN testing.h EXCLUDE) # it is not part of the interface
if(BONSAI_PROGRAMS)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/conf/workloads DESTINATION ${CMAKE_INSTALL_DATADIR}/bonsai)
  foreach(file IN ITEMS bonsaid.toml bonsai-server.service bonsai-server.socket)
    install(FILES ${PROJECT_SOURCE_DIR}/conf/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/bonsai)
  endforeach()
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Programs are the files in bin/. They find the library from where they are. A program that is not built is left out,
# with a message.
file(RELATIVE_PATH libraries_from_programs /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
bonsai_all_targets(targets)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  get_target_property(folder ${target} RUNTIME_OUTPUT_DIRECTORY)
  if(type STREQUAL EXECUTABLE AND folder STREQUAL CMAKE_RUNTIME_OUTPUT_DIRECTORY)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_programs}")
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
    install(CODE "if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
      message(STATUS \"Not installed, since it is not built: ${target}\")
    endif()")
  endif()
endforeach()
install(CODE "message(STATUS \"Run ldconfig as root, so that the loader finds libbonsai.so.${PROJECT_VERSION_MAJOR}\")")

if(BUILD_TESTING)
  add_test(NAME build_options COMMAND ${CMAKE_COMMAND} -D build=${CMAKE_BINARY_DIR} -D source=${PROJECT_SOURCE_DIR}
           -D cxx=${CMAKE_CXX_COMPILER} -P ${PROJECT_SOURCE_DIR}/cmake/build_options_test.cmake)
  set_tests_properties(build_options PROPERTIES TIMEOUT 720 LABELS build)
  add_test(NAME install_consumer COMMAND ${CMAKE_COMMAND} -D build=${CMAKE_BINARY_DIR} -D source=${PROJECT_SOURCE_DIR}
           -D cxx=${CMAKE_CXX_COMPILER} -P ${PROJECT_SOURCE_DIR}/cmake/install_consumer_test.cmake)
  set_tests_properties(install_consumer PROPERTIES TIMEOUT 720 LABELS build)
endif()
