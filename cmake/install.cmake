# SPDX-License-Identifier: Apache-2.0
# The files that `cmake --install` installs: the headers, libbonsai.so, the programs, and the files for
# find_package(bonsai) and pkg-config. The library is one shared object with the rooms inside. It exports only the
# declarations of include/bonsai (cmake/exports.map), so that symbols of the rooms and their dependencies do not leak
# into a host program.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(exports_map ${PROJECT_SOURCE_DIR}/cmake/exports.map)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/library_anchor.cc CONTENT "// The code comes from the room libraries.\n")
add_library(bonsai_library SHARED ${CMAKE_BINARY_DIR}/library_anchor.cc)
add_library(bonsai::bonsai ALIAS bonsai_library)
target_link_libraries(bonsai_library PRIVATE bonsai_options $<LINK_LIBRARY:WHOLE_ARCHIVE,bonsai_store>)
set_target_properties(bonsai_library PROPERTIES
  OUTPUT_NAME bonsai EXPORT_NAME bonsai VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,bonsai_store" LINK_DEPENDS ${exports_map})
target_link_options(bonsai_library PRIVATE -Wl,--version-script=${exports_map})
target_include_directories(bonsai_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(bonsai_library INTERFACE cxx_std_20)
if(BONSAI_SANITIZE)
  set_target_properties(bonsai_library PROPERTIES EXCLUDE_FROM_ALL TRUE)
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
  install(FILES ${PROJECT_SOURCE_DIR}/conf/bonsaid.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/bonsai)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Programs are the files in bin/. A program that is not built is left out, with a message.
bonsai_all_targets(targets)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  get_target_property(folder ${target} RUNTIME_OUTPUT_DIRECTORY)
  if(type STREQUAL EXECUTABLE AND folder STREQUAL CMAKE_RUNTIME_OUTPUT_DIRECTORY)
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
  set_tests_properties(build_options PROPERTIES TIMEOUT 180 LABELS build)
  add_test(NAME install_consumer COMMAND ${CMAKE_COMMAND} -D build=${CMAKE_BINARY_DIR} -D source=${PROJECT_SOURCE_DIR}
           -D cxx=${CMAKE_CXX_COMPILER} -P ${PROJECT_SOURCE_DIR}/cmake/install_consumer_test.cmake)
  set_tests_properties(install_consumer PROPERTIES TIMEOUT 180 LABELS build)
endif()
