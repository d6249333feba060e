# Without libfyaml, descriptions cannot be read (src/format/room.cmake).
if(NOT FYAML_FOUND)
  get_target_property(train_sources braid_train SOURCES)
  list(FILTER train_sources EXCLUDE REGEX "/run[a-z_]*\\.c$")
  set_property(TARGET braid_train PROPERTY SOURCES ${train_sources})
endif()
