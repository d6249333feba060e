find_package(Threads REQUIRED)
target_link_libraries(braid_store PUBLIC Threads::Threads)
