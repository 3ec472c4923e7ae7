//! Examples of each command, in its long help and its manual page.

use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// The examples: one line for each, in the order of the help.
const EXAMPLES: &str = "\
lucarne serve -c /etc/lucarne/lucarne.yaml --log-format json
lucarne serve --testcert
lucarne witness -c witness.yaml
lucarne mirror -c mirror.yaml
lucarne check -c /etc/lucarne/lucarne.yaml
lucarne config show -c lucarne.yaml
lucarne config schema
lucarne init -c /etc/lucarne/lucarne.yaml
lucarne adopt -c sunlight.yaml --follow
lucarne adopt -c sunlight.yaml --check
lucarne adopt -c sunlight.yaml
lucarne adopt -c sunlight.yaml --witness
lucarne give-back -c lucarne.yaml --to sunlight
lucarne fsck -c lucarne.yaml example2026h2
lucarne fsck --at https://ct.example.net/2026h2/ --json
lucarne repair -c lucarne.yaml example2026h2 --dry-run
lucarne repair -c lucarne.yaml example2026h2 --from /backup/example2026h2
lucarne archive -c lucarne.yaml example2026h2 -o archive
lucarne archive --verify --at archive
lucarne lock show -c lucarne.yaml
lucarne lock copy -c lucarne.yaml /backup/checkpoints.db
lucarne lock rebuild -c lucarne.yaml example2026h2 --known https://mirror.example/checkpoint
lucarne journal list -c lucarne.yaml
lucarne keygen -f /etc/lucarne/example2026h2.seed
lucarne keygen -f /etc/lucarne/witness.seed --witness witness.example.com
lucarne keygen -f /etc/lucarne/mirror.seed --mirror mirror.example.com
lucarne signer -c signer.yaml first-use ct.example.net/2026h2
lucarne signer -c signer.yaml adopt /srv/lucarne/example2026h2/checkpoint
lucarne demo
lucarne demo --instances 3 --rate 20
lucarne load run plan.yaml --summary summary.json --html report.html
lucarne load quick plan.yaml
lucarne load find plan.yaml --objective 'http_req_duration:p(99)<500' --from 100 --to 20000
lucarne load from-har session.har -o plan.yaml
lucarne load from-access-log access.log --base-url https://test.example -o plan.yaml
lucarne load check plan.yaml
lucarne load lead plan.yaml --agents 3 --listen :7171 --key agents.key
lucarne load agent leader.example:7171 --key agents.key
lucarne load merge a.json b.json -o both.json
lucarne load ct-write --log-url http://127.0.0.1:6962/2026h2/ --roots load-ca --rate 20 --duration 5s
lucarne load ct-read --log-url http://127.0.0.1:6962/2026h2/ --rate 50/s --duration 5s
lucarne load ct --log-url http://127.0.0.1:6962/2026h2/ --max-write-ops 20 --max-runtime 1m
lucarne load rest --url https://api.example/health --rate 50 --duration 30s
lucarne load tls --url https://www.example --rate 100/m --duration 5m
lucarne load s3 --endpoint http://127.0.0.1:9000 --create-bucket
lucarne load proxy --proxy http://127.0.0.1:3128 --rate 20 --duration 10s
lucarne load acme --directory https://localhost:14000/dir --rate 5 --duration 10s
lucarne proxy
lucarne proxy --admin 127.0.0.1:3129 --tunnel '*.bank.example'
lucarne lint site.pem --log-list log_list.json --issuer issuer.pem
lucarne watch https://ct.example/2026h2/
lucarne watch --once --stale-after 1m https://ct.example/2026h2/
lucarne ca new load-ca
lucarne ca show load-ca
lucarne ca mint ca
lucarne ca inspect ca
lucarne generate man man1
lucarne generate completions bash";

/// Returns the definition of the command line with the examples.
pub fn command_line() -> Command {
    let lines = EXAMPLES.lines();
    lines.fold(with_underscores(Cli::command()), |cli, line| {
        with_example(cli, line.split(' '), line)
    })
}

/// Accepts each flag also with underscores instead of dashes, as Go programs write flags.
pub(crate) fn with_underscores(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let mut names = arg.get_all_aliases().unwrap_or_default();
        names.extend(arg.get_long());
        let names = names.into_iter().filter(|name| name.contains('-'));
        let names: Vec<_> = names.map(|name| name.replace('-', "_")).collect();
        arg.aliases(names)
    });
    command.mut_subcommands(with_underscores)
}

/// Adds `line` to the help of its command: the innermost subcommand that `words` name. The other
/// words are arguments. A build without a feature has one command in place of its subcommands.
fn with_example<'a>(
    command: Command,
    mut words: impl Iterator<Item = &'a str>,
    line: &str,
) -> Command {
    let inner = words.find(|word| command.find_subcommand(word).is_some());
    if let Some(name) = inner {
        return command.mut_subcommand(name, |inner| with_example(inner, words, line));
    }
    if command.is_allow_external_subcommands_set() {
        return command;
    }
    let end = command.get_after_help().map(|text| format!("\n\n{text}"));
    let end = end.unwrap_or_default();
    let shown = command.get_after_long_help().map(ToString::to_string);
    let shown = shown.unwrap_or_else(|| format!("Examples:{end}"));
    let examples = shown.strip_suffix(&end).unwrap_or(&shown);
    command.after_long_help(format!("{examples}\n  {line}{end}"))
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
        let cli = command_line();
        for line in EXAMPLES.lines() {
            let words = line.split(' ').map(|word| word.trim_matches('\''));
            let parsed = cli.clone().try_get_matches_from(words);
            let parsed = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
            let (mut matches, mut command) = (&parsed, &cli);
            while let Some((name, inner)) = matches.subcommand() {
                (matches, command) = (inner, command.find_subcommand(name).unwrap());
            }
            let shown = command.get_after_long_help().unwrap().to_string();
            assert!(shown.contains(&format!("\n  {line}")), "{line}:\n{shown}");
        }
    }
}
