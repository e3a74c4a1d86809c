# embed(files...): writes each file's bytes, as the initialiser of a C array with a closing 0, to
# <build folder>/generated/<file name>.inc. Folders of layer() have `generated` on their include path.
function(embed)
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(....................................................................................................)" "\\1\n" bytes "${bytes}")
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.inc CONTENT "${bytes}0\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
endfunction()

# embed_machines(folder): every machine of a folder and their schema. A machine is one file: the table of the
# shipped ones, generated/machines.inc, follows from what is there.
function(embed_machines folder)
  file(GLOB machines CONFIGURE_DEPENDS ${folder}/*.xml)
  embed(${machines} ${folder}/machine.rng)
  foreach(file ${machines})
    get_filename_component(name ${file} NAME_WE)
    string(APPEND texts "static const unsigned char text_${name}[] = {\n#include \"${name}.xml.inc\"\n};\n")
    string(APPEND names "\"${name}\", ")
    string(APPEND rows "  {\"${name}\", text_${name}, sizeof text_${name} - 1},\n")
  endforeach()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/machines.inc CONTENT
       "${texts}static const char *const shipped_names[] = {${names}NULL};\nstatic const shipped shipped_machines[] = {\n${rows}};\n")
endfunction()
