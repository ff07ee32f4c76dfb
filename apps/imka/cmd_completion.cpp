// imka completion: shell completion, generated from the verbs and options.
#include <fmt/format.h>

#include <memory>

#include "app.hpp"

namespace imka::app {
namespace {

// Words that can follow a verb: its sub-verbs and long options.
struct Place {
    std::string path;  // "imka data show"
    std::vector<std::string> words;
};

void collect(const CLI::App& app, const std::string& path, std::vector<Place>& places) {
    Place place{.path = path, .words = {}};
    for (const auto* sub : app.get_subcommands({})) {
        place.words.push_back(sub->get_name());
        collect(*sub, path + " " + sub->get_name(), places);
    }
    for (const auto* option : app.get_options()) {
        for (const auto& name : option->get_lnames()) place.words.push_back("--" + name);
    }
    places.push_back(std::move(place));
}

std::string bash_script(const std::vector<Place>& places) {
    std::string text =
        "# bash completion for imka. Use: source <(imka completion bash)\n"
        "_imka() {\n"
        "    local word path=imka words=\n"
        "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
        "        case \"$word\" in -*) break ;; esac\n"
        "        path=\"$path $word\"\n"
        "    done\n"
        "    case \"$path\" in\n";
    for (const auto& p : places)
        text += fmt::format("        '{}') words='{}' ;;\n", p.path, fmt::join(p.words, " "));
    return text +
           "    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
           "    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
           "}\n"
           "complete -F _imka imka\n";
}

std::string zsh_script(const std::vector<Place>& places) {
    return "# zsh completion for imka. Use: source <(imka completion zsh)\n"
           "autoload -U +X bashcompinit && bashcompinit\n" +
           bash_script(places);
}

std::string fish_script(const std::vector<Place>& places) {
    std::string text =
        "# fish completion for imka. Use: imka completion fish | source\ncomplete -c imka -f\n";
    for (const auto& p : places) {
        const auto verb = p.path.size() > 4 ? p.path.substr(p.path.rfind(' ') + 1) : std::string();
        for (const auto& word : p.words) {
            const auto what = word.starts_with("--") ? "-l " + word.substr(2) : "-a " + word;
            const auto when = verb.empty() ? std::string("__fish_use_subcommand")
                                           : fmt::format("__fish_seen_subcommand_from {}", verb);
            text += fmt::format("complete -c imka -n '{}' {}\n", when, what);
        }
    }
    return text;
}

}  // namespace

void add_completion(CLI::App& root, Context& /*context*/) {
    auto shell = std::make_shared<std::string>();
    auto* verb = add_verb(root, "completion", "Print a completion script for a shell",
                          {"source <(imka completion bash)", "imka completion fish | source"});
    verb->add_option("shell", *shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    verb->callback([shell, &root] {
        std::vector<Place> places;
        collect(root, "imka", places);
        print_out("{}", *shell == "bash"  ? bash_script(places)
                        : *shell == "zsh" ? zsh_script(places)
                                          : fish_script(places));
    });
}

}  // namespace imka::app
