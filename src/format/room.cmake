# libfyaml reads run descriptions. A build without it, for machines that only measure kernels,
# leaves out yaml.c.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(FYAML QUIET IMPORTED_TARGET libfyaml)
endif()
if(FYAML_FOUND)
  target_link_libraries(braid_format PUBLIC PkgConfig::FYAML)
else()
  message(STATUS "libfyaml is missing: building without RUN.yaml files")
  get_target_property(format_sources braid_format SOURCES)
  list(FILTER format_sources EXCLUDE REGEX "/yaml\\.c$")
  set_property(TARGET braid_format PROPERTY SOURCES ${format_sources})
endif()
