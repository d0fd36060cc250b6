# Prints what zsh would propose for each line: capture.zsh SCRIPT FOLDER LINE…
# In a pseudo-terminal of its own, where compadd also says what it is given.
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PROMPT=; RPROMPT=; setopt no_beep; autoload -Uz compinit; compinit -u -D; source $1; cd $2"
# Calls with -O, -A or -D only filter: nothing is proposed by them.
zpty -w z 'compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  print -r -l -- $'"'\\n'"'HIT:$^hits
  builtin compadd "$@"
}'
zpty -w z "finish() { print -r DONE:END; zle kill-whole-line; zle reset-prompt }; zle -N finish; bindkey '^Xf' finish; bindkey '^I' complete-word; print READY:\$((1+1))"
zpty -r -m z out '*READY:2*'
for line in "${@:3}"; do
  zpty -n -w z $line$'\t\C-Xf'
  zpty -r -m z out '*DONE:END*'
  print -r -l -- ${(M)${(f)out//$'\r'/}:#HIT:*} END
done
zpty -d z
