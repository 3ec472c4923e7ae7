//! Examples of each command, in its long help and its manual page.

use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// The examples of each command without subcommands, by the names of the command.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "serve",
        &[
            "lucarne serve -c /etc/lucarne/lucarne.yaml --log-format json",
            "lucarne serve --testcert",
        ],
    ),
    ("check", &["lucarne check -c /etc/lucarne/lucarne.yaml"]),
    ("config show", &["lucarne config show -c lucarne.yaml"]),
    ("config schema", &["lucarne config schema"]),
    ("init", &["lucarne init -c /etc/lucarne/lucarne.yaml"]),
    (
        "adopt",
        &[
            "lucarne adopt -c sunlight.yaml --follow",
            "lucarne adopt -c sunlight.yaml --check",
            "lucarne adopt -c sunlight.yaml",
        ],
    ),
    (
        "give-back",
        &["lucarne give-back -c lucarne.yaml --to sunlight"],
    ),
    (
        "fsck",
        &[
            "lucarne fsck -c lucarne.yaml example2026h2",
            "lucarne fsck --at https://ct.example.net/2026h2/ --json",
        ],
    ),
    (
        "repair",
        &[
            "lucarne repair -c lucarne.yaml example2026h2 --dry-run",
            "lucarne repair -c lucarne.yaml example2026h2 --from /backup/example2026h2",
        ],
    ),
    ("lock show", &["lucarne lock show -c lucarne.yaml"]),
    (
        "lock copy",
        &["lucarne lock copy -c lucarne.yaml /var/lib/lucarne-lock/moved.db"],
    ),
    (
        "lock rebuild",
        &[
            "lucarne lock rebuild -c lucarne.yaml example2026h2 --known https://mirror.example/checkpoint",
        ],
    ),
    ("journal list", &["lucarne journal list -c lucarne.yaml"]),
    (
        "keygen",
        &["lucarne keygen -f /etc/lucarne/example2026h2.seed"],
    ),
    (
        "signer first-use",
        &["lucarne signer -c signer.yaml first-use ct.example.net/2026h2"],
    ),
    (
        "signer adopt",
        &["lucarne signer -c signer.yaml adopt /srv/lucarne/example2026h2/checkpoint"],
    ),
    (
        "demo",
        &["lucarne demo", "lucarne demo --instances 3 --rate 20"],
    ),
    (
        "load run",
        &["lucarne load run plan.yaml --summary summary.json --html report.html"],
    ),
    ("load quick", &["lucarne load quick plan.yaml"]),
    ("load check", &["lucarne load check plan.yaml"]),
    (
        "load merge",
        &["lucarne load merge a.json b.json -o both.json"],
    ),
    (
        "load ct-write",
        &[
            "lucarne load ct-write --log-url http://127.0.0.1:6962/2026h2/ --roots load-ca --rate 20 --duration 5s",
        ],
    ),
    (
        "load ct-read",
        &["lucarne load ct-read --log-url http://127.0.0.1:6962/2026h2/ --rate 50/s --duration 5s"],
    ),
    (
        "load ct",
        &[
            "lucarne load ct --log-url http://127.0.0.1:6962/2026h2/ --max-write-ops 20 --max-runtime 1m",
        ],
    ),
    (
        "load rest",
        &["lucarne load rest --url https://api.example/health --rate 50 --duration 30s"],
    ),
    (
        "load tls",
        &["lucarne load tls --url https://www.example --rate 100/m --duration 5m"],
    ),
    (
        "load s3",
        &["lucarne load s3 --endpoint http://127.0.0.1:9000 --create-bucket"],
    ),
    (
        "load proxy",
        &["lucarne load proxy --proxy http://127.0.0.1:3128 --rate 20 --duration 10s"],
    ),
    (
        "load acme",
        &["lucarne load acme --directory https://localhost:14000/dir --rate 5 --duration 10s"],
    ),
    (
        "proxy",
        &[
            "lucarne proxy",
            "lucarne proxy --admin 127.0.0.1:3129 --tunnel '*.bank.example'",
        ],
    ),
    (
        "lint",
        &["lucarne lint site.pem --log-list log_list.json --issuer issuer.pem"],
    ),
    (
        "watch",
        &[
            "lucarne watch https://ct.example/2026h2/",
            "lucarne watch --once --stale-after 1m https://ct.example/2026h2/",
        ],
    ),
    ("ca new", &["lucarne ca new load-ca"]),
    ("ca show", &["lucarne ca show load-ca"]),
    ("ca mint", &["lucarne ca mint ca"]),
    ("ca inspect", &["lucarne ca inspect ca"]),
    ("generate man", &["lucarne generate man man1"]),
    (
        "generate completions",
        &["lucarne generate completions bash"],
    ),
];

/// Returns the definition of the command line with the examples.
pub fn command_line() -> Command {
    EXAMPLES.iter().fold(Cli::command(), |cli, (path, lines)| {
        let names: Vec<_> = path.split(' ').collect();
        with_examples(cli, &names, lines)
    })
}

/// Adds `lines` to the subcommand with the path `names`. A build without a feature lacks some
/// subcommands.
fn with_examples(command: Command, names: &[&str], lines: &[&str]) -> Command {
    match names {
        [name, rest @ ..] if command.find_subcommand(name).is_some() => {
            command.mut_subcommand(*name, |inner| with_examples(inner, rest, lines))
        }
        [_, ..] => command,
        [] => {
            let after = command.get_after_help().map(|text| format!("\n\n{text}"));
            let text = format!(
                "Examples:\n  {}{}",
                lines.join("\n  "),
                after.unwrap_or_default()
            );
            command.after_long_help(text)
        }
    }
}

#[cfg(all(test, feature = "load", feature = "proxy"))]
mod tests {
    use super::*;

    /// Asserts that the command or each of its subcommands has examples.
    fn assert_examples(command: &Command, path: &str) {
        let mut inner = command.get_subcommands().peekable();
        if inner.peek().is_none() {
            let shown = command.get_after_long_help();
            let shown = shown.map(ToString::to_string).unwrap_or_default();
            assert!(shown.starts_with("Examples:\n  lucarne "), "{path}");
            let after = command.get_after_help().map(ToString::to_string);
            assert!(shown.ends_with(&after.unwrap_or_default()), "{path}");
        }
        for command in inner {
            assert_examples(command, &format!("{path} {}", command.get_name()));
        }
    }

    #[test]
    fn every_command_has_examples_that_it_accepts() {
        assert_examples(&command_line(), "lucarne");
        for (path, lines) in EXAMPLES {
            for line in *lines {
                assert!(line.starts_with(&format!("lucarne {}", path.split(' ').next().unwrap())));
                let words = line.split(' ').map(|word| word.trim_matches('\''));
                let parsed = command_line().try_get_matches_from(words);
                let parsed = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
                let mut matches = &parsed;
                for name in path.split(' ') {
                    let (found, inner) = matches.subcommand().unwrap();
                    assert_eq!(found, name, "{line}");
                    matches = inner;
                }
            }
        }
    }
}
