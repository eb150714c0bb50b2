# Bash completion of lamina(1). Options are asked of the program, so that they never differ from it.
_lamina()
{
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]:-}
    if [[ $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W \
            'serve encode tokenize inspect compile check calibrate compare sweep bench healthcheck version --help --version' -- "$cur")
    elif [[ $cur == -* ]]; then
        local options
        options=$(lamina "$command" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        compopt -o filenames
    fi
}
complete -F _lamina lamina
