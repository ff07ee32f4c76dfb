# imka_embed(target file symbol): compiles a file into the target as `const std::string_view imka::embedded::symbol`.
function(imka_embed target file symbol)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/embed_${symbol}.cpp)
    get_filename_component(path ${file} ABSOLUTE)
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DIN=${path} -DOUT=${out} -DSYMBOL=${symbol} -P ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
        DEPENDS ${path} ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake VERBATIM)
    set_source_files_properties(${out} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    target_sources(${target} PRIVATE ${out})
endfunction()
