use std::path::Path;

use clap::Parser;
use lucarne_proxy::Action;

use super::config::StoreKind;
use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
}

fn options(arguments: &[&str]) -> Options {
    Command::parse_from([&["proxy"], arguments].concat()).options
}

fn file(yaml: &str) -> (Config, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.yaml");
    std::fs::write(&path, yaml).unwrap();
    let mut report = Report::on(Some(Path::new("p.yaml")));
    let config = file::read(&path, &mut report);
    (config, report.problem_lines())
}

#[test]
fn flags_count_before_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.yaml");
    std::fs::write(
        &path,
        "listen: 127.0.0.1:1\nstore: none\nrules:\n  - {host: a.example, action: tunnel}\n",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let given = options(&[
        "--config",
        path,
        "--store",
        "memory",
        "--intercept",
        "*.example",
    ]);
    let config = read(&given).unwrap();
    assert_eq!(config.store_kind(), StoreKind::Memory);
    assert_eq!(config.listen[0].to_string(), "127.0.0.1:1");
    let actions: Vec<Action> = config.rules.rules.iter().map(|rule| rule.action).collect();
    assert_eq!(actions, [Action::Intercept, Action::Tunnel]);
}

#[test]
fn nothing_said_is_a_proxy_for_this_machine_alone() {
    let config = read(&options(&[])).unwrap();
    assert_eq!(config.listen[0].to_string(), "127.0.0.1:3128");
    assert_eq!(config.store_kind(), StoreKind::Memory);
    assert!(!config.rules.private && !config.insecure);
    let layered = read(&options(&["--store-directory", "x"])).unwrap();
    assert_eq!(layered.store_kind(), StoreKind::Layered);
}

#[test]
fn every_problem_has_its_line() {
    let (_, said) = file(
        "listen: nowhere\nkeytype: dsa\nstore: cloud\nrules:\n  - host: a.example\n    action: block\n\
         networks: [10.0.0.0/40]\nlimits:\n  idletimeout: 5\n  maxhost: 3\nupstream:\n  insecure: maybe\n\
         porst: 443\n",
    );
    let said = said.join("\n");
    for expected in [
        "p.yaml:1: listen: `nowhere` has no port",
        "p.yaml:2: keytype: `dsa` is no kind of key",
        "p.yaml:3: store: `cloud` is none of memory",
        "p.yaml:6: rules[0].action: `block` is neither intercept nor tunnel",
        "p.yaml:7: networks: `10.0.0.0/40` is no address block",
        "p.yaml:9: limits.idletimeout: `5` has no unit",
        "p.yaml:10: limits.maxhost: no such key; did you mean `maxhosts`?",
        "p.yaml:12: upstream.insecure: `maybe` is neither true nor false",
        "p.yaml:13: porst: no such key; did you mean `ports`?",
    ] {
        assert!(said.contains(expected), "{expected} in\n{said}");
    }
}

#[test]
fn the_documentation_has_every_key_and_every_flag() {
    use clap::CommandFactory;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proxy.md");
    let text = std::fs::read_to_string(path).unwrap();
    for keys in [
        file::TOP,
        file::RULE,
        file::UPSTREAM,
        file::LIMITS,
        file::OBSERVE,
    ] {
        for key in keys {
            assert!(
                text.contains(&format!("`{key}`")),
                "docs/proxy.md lacks the key {key}"
            );
        }
    }
    for argument in Command::command().get_arguments() {
        if let Some(flag) = argument.get_long() {
            assert!(
                text.contains(&format!("`--{flag}")),
                "docs/proxy.md lacks --{flag}"
            );
        }
    }
}
