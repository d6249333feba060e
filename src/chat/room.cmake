# utf8proc has the upper and lower case of characters
target_link_libraries(braid_chat PRIVATE PkgConfig::UTF8PROC)
