# libmicrohttpd reads requests and writes answers; GnuTLS behind it has TLS.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
target_link_libraries(braid_http PUBLIC PkgConfig::MICROHTTPD Threads::Threads)
target_compile_definitions(braid_http PUBLIC BRAID_VERSION="${PROJECT_VERSION}")
# POLLRDHUP
target_compile_definitions(braid_http PRIVATE _GNU_SOURCE)

# The page's files become arrays in page_files.inc.
set(page_folder ${CMAKE_SOURCE_DIR}/src/http/page)
set(page_output ${CMAKE_BINARY_DIR}/http/page_files.inc)
file(GLOB page_files CONFIGURE_DEPENDS ${page_folder}/*.html ${page_folder}/*.css ${page_folder}/*.js ${page_folder}/*.svg)
add_custom_command(OUTPUT ${page_output}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${page_output} "-DFILES=${page_files}" -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${page_files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
target_sources(braid_http PRIVATE ${page_output})
target_include_directories(braid_http PRIVATE ${CMAKE_BINARY_DIR}/http)
