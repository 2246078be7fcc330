# bench_loader: tokens a second of the data loader alone. include()d by tests/CMakeLists.txt.
find_package(benchmark REQUIRED)
add_executable(bench_loader ${CMAKE_CURRENT_LIST_DIR}/loader.cpp)
target_link_libraries(bench_loader PRIVATE llmc_data benchmark::benchmark)
