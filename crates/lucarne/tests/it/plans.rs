//! The plans in the repository, and the documentation of plans.

use std::path::{Path, PathBuf};

use crate::common::{LUCARNE, assert_has};
use lucarne_testkit::Launch;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn plans() -> Vec<PathBuf> {
    let plans = std::fs::read_dir(root().join("plans")).unwrap();
    let mut plans: Vec<PathBuf> = plans.map(|entry| entry.unwrap().path()).collect();
    plans.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    plans.sort();
    plans
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// Runs `lucarne load check` on a plan. Returns the exit code and the whole output.
fn check(plan: &Path, environment: &[(&str, &str)]) -> (i32, String) {
    let mut launch = Launch::new(LUCARNE).args(["load", "check"]).arg(plan);
    for (name, value) in environment {
        launch = launch.env(*name, *value);
    }
    let output = launch.run().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), said)
}

#[test]
fn every_plan_that_ships_can_be_run() {
    let plans = plans();
    assert!(plans.len() >= 5, "{plans:?}");
    for plan in plans {
        let environment = [
            ("CT_LOG_URL", "http://127.0.0.1:6962/log/"),
            ("S3_ENDPOINT", "http://127.0.0.1:9000"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("NGINX_TARGET_URL", "https://127.0.0.1:1"),
            ("APACHE_TARGET_URL", "https://127.0.0.1:1"),
            ("HAPROXY_TARGET_URL", "https://127.0.0.1:1"),
            ("F5_TARGET_URL", "https://127.0.0.1:1"),
            ("PROXY_URL", "http://127.0.0.1:8080"),
            ("PROXY_CA", "ca.pem"),
            ("CERTCTL_ACME_DIRECTORY", "https://127.0.0.1:1/dir"),
        ];
        let (code, said) = check(&plan, &environment);
        assert_eq!(code, 0, "{}:\n{said}", plan.display());
        assert_has(&said, "no problems, no warnings");
    }
}

/// The second part of the plan reaches each of its hosts.
#[test]
fn the_plan_for_proxies_reaches_a_thousand_hosts() {
    let plan = root().join("plans/proxy.yaml");
    assert_has(&read("plans/proxy.yaml"), "hosts: 1000\n");
    let environment = [("PROXY_URL", "http://127.0.0.1:8080"), ("PROXY_CA", "ca")];
    let (code, said) = check(&plan, &environment);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "scenario one-host: proxy, 50/s for 5s\n");
    assert_has(&said, "scenario thousand-hosts: proxy, 50/s for 20s\n");
    // A duration for both parts.
    let environment = [&environment[..], &[("PROXY_DURATION", "2s")]].concat();
    let (_, said) = check(&plan, &environment);
    assert_eq!(said.matches("50/s for 2s\n").count(), 2, "{said}");
}

#[test]
fn no_log_is_loaded_by_accident() {
    let (code, said) = check(&root().join("plans/quick.yaml"), &[("CT_LOG_URL", "")]);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "the environment has no CT_LOG_URL");
}

#[test]
fn every_plan_is_listed() {
    let listed = read("plans/README.md");
    for plan in plans() {
        let name = plan.file_name().unwrap().to_string_lossy().into_owned();
        assert_has(&listed, &format!("[{name}]({name})"));
        assert!(
            std::fs::read_to_string(&plan).unwrap().starts_with("# "),
            "{name} does not say what it is for"
        );
    }
}

/// The page documents every key of a scenario, every executor and every scenario.
#[test]
fn every_key_of_a_plan_is_documented() {
    let text = read("docs/reference/load/plans.md");
    let scenarios = lucarne_scenarios::scenarios();
    let kinds = scenarios.iter().map(|kind| kind.name);
    let keys = lucarne_load::plan::SCENARIO
        .iter()
        .flat_map(|keys| keys.iter());
    let executors = lucarne_load::plan::EXECUTORS.iter();
    for word in keys.chain(executors).copied().chain(kinds) {
        assert!(
            text.contains(&format!("`{word}`")) || text.contains(&format!("scenario: {word}")),
            "`{word}` is not in docs/reference/load/plans.md"
        );
    }
    for key in lucarne_load::plan::TOP {
        assert_has(&text, &format!("{key}:"));
    }
}
