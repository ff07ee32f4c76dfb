# Plain comments to Doxygen comments: the first block describes the file, a comment above a name or behind it that name.
1s|^// |/// \\file\n/// |
/^[[:space:]]*\/\/ /{
s|[\\@<>#&]|\\&|g
s|// |/// |
}
/^\/\/\/ \\\\file/s|\\\\file|\\file|
/[;,{}]  *\/\/ /{
h
s|^.*[;,{}]  *// ||
s|[\\@<>#&]|\\&|g
x
s|([;,{}]  *)// .*$|\1///< |
G
s|\n||
}
