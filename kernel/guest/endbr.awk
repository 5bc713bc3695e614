# endbr.awk adds endbr64 at the beginning of functions, or removes it, as told by
# the list that is read first. The second file is assembly from gcc -S.
NR == FNR { if ($1 ~ /^[-+]/) want[substr($1, 2)] = substr($1, 1, 1); next }
/^[A-Za-z_][A-Za-z0-9_]*:/ { name = $1; sub(/:.*/, "", name); at = want[name] }
at != "" && $1 == "endbr64" { if (at == "-") { at = ""; next } at = "" }
at == "+" && /nopl|^1:/ { print "\tendbr64"; at = "" }
{ print }
