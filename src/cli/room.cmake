# jansson reads and writes the JSON lines of --json.
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
target_link_libraries(braid_cli PUBLIC PkgConfig::JANSSON)
# main.c is outside the room's library; the program takes this from it.
target_compile_definitions(braid_cli PUBLIC BRAID_VERSION="${PROJECT_VERSION}")
