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
         porst: 443\nlifetime: 0s\n",
    );
    let said = said.join("\n");
    for expected in [
        "p.yaml:1: listen: `nowhere` has no port",
        "p.yaml:2: keytype: `dsa` is not a kind of key",
        "p.yaml:3: store: `cloud` must be memory",
        "p.yaml:6: rules[0].action: `block` is neither intercept nor tunnel",
        "p.yaml:7: networks: `10.0.0.0/40` is not an address block",
        "p.yaml:9: limits.idletimeout: `5` has no unit",
        "p.yaml:10: limits.maxhost: no such key; did you mean `maxhosts`?",
        "p.yaml:12: upstream.insecure: `maybe` is neither true nor false",
        "p.yaml:13: porst: no such key; did you mean `ports`?",
        "p.yaml:14: lifetime: `0s` must be greater than zero",
    ] {
        assert!(said.contains(expected), "{expected} in\n{said}");
    }
}

#[test]
fn sizes_and_durations_have_units() {
    let (config, said) = file("storememory: 128MiB\nlimits: {maxheader: 32KiB, idletimeout: 2m}\n");
    assert_eq!(said, Vec::<String>::new());
    assert_eq!(config.store_memory, 128 << 20);
    assert_eq!(config.limits.head_bytes, 32 << 10);
    assert_eq!(config.limits.idle.as_secs(), 120);
    // Numbers of earlier versions.
    let (config, said) = file("storememory: 128\nlimits: {maxheader: 32768}\n");
    assert_eq!(said, Vec::<String>::new());
    assert_eq!(config.store_memory, 128 << 20);
    assert_eq!(config.limits.head_bytes, 32 << 10);
    for memory in ["32", "32MiB"] {
        let flags = options(&["--store-memory", memory]).flags;
        assert_eq!(flags.store_memory, Some(32 << 20));
    }
}

#[test]
fn the_documented_defaults_are_those_of_the_program() {
    crate::config::keys::assert_defaults(&keys::top::TABLE);
}

#[test]
fn the_documentation_has_every_flag() {
    use clap::CommandFactory;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/proxy.md");
    let text = std::fs::read_to_string(path).unwrap();
    for argument in Command::command().get_arguments() {
        if let Some(flag) = argument.get_long() {
            assert!(
                text.contains(&format!("`--{flag}")),
                "docs/reference/proxy.md lacks --{flag}"
            );
        }
    }
}

#[test]
fn upstream_proxies_and_certificates_are_read() {
    let (config, said) = file(
        "upstream:\n  proxy:\n    - {host: '*.corp.example', url: direct}\n    \
         - {host: a.example, url: 'http://anna@p.example:8080', password: 'env:PROXY_PASSWORD'}\n    \
         - url: https://p.example\n  certificates:\n    - {host: 'a.example:8443', certificate: \
         c.pem, key: /k.pem}\ncertificates:\n  - certificate: both.pem\n",
    );
    assert_eq!(said, Vec::<String>::new());
    let shown = |through: &config::Through| {
        let proxy = through.proxy.as_ref();
        let proxy = proxy.map_or("direct".to_owned(), ToString::to_string);
        (through.hosts.to_string(), proxy, through.password.is_some())
    };
    let through: Vec<_> = config.through.iter().map(shown).collect();
    let expected = [
        ("*.corp.example", "direct", false),
        ("a.example", "http://p.example:8080", true),
        ("*", "https://p.example:443", false),
    ];
    assert_eq!(
        through,
        expected.map(|(hosts, proxy, password)| (hosts.to_owned(), proxy.to_owned(), password))
    );
    assert_eq!(config.shown[0].key, Path::new("/k.pem"));
    assert!(config.shown[0].certificate.ends_with("c.pem"));
    assert_eq!(config.own[0].hosts.to_string(), "*");
    assert_eq!(config.own[0].certificate, config.own[0].key);

    let (config, said) = file("upstream:\n  proxy: http://anna:p%40ss@p.example:3128\n");
    assert_eq!((config.through.len(), said.len()), (1, 0), "{said:?}");
    assert_eq!(shown(&config.through[0]).1, "http://p.example:3128");
}

#[test]
fn what_is_wrong_with_an_upstream_proxy_is_said_without_its_password() {
    for (yaml, expected) in [
        (
            "upstream: {proxy: 'socks5://anna:secret@p.example:1'}",
            "p.yaml:1: upstream.proxy: the URL has the scheme socks5://, which is not supported",
        ),
        (
            "upstream: {proxy: 'http://anna@p.example:1'}",
            "upstream.proxy: the URL names a user without a password",
        ),
        (
            "upstream:\n  proxy:\n    - {host: a.example}\n",
            "p.yaml:3: upstream.proxy[0].url: is missing",
        ),
        (
            "upstream:\n  proxy:\n    - {url: 'http://anna@p.example:1'}\n",
            "p.yaml:3: upstream.proxy[0].url: names a user; add `password: FILE`",
        ),
        (
            "upstream:\n  proxy: {url: 'http://anna:secret@p.example:1', password: 'env:X'}\n",
            "upstream.proxy.url: has no user, or already has a password: remove `password`",
        ),
        (
            "upstream:\n  proxy:\n    - {url: direct, pasword: x}\n",
            "upstream.proxy[0].pasword: no such key; did you mean `password`?",
        ),
        (
            "upstream:\n  proxy: {host: 'a b', url: direct}\n",
            "upstream.proxy.host: `a b` has ` `, which no host name has",
        ),
        (
            "upstream: {certificates: c.pem}",
            "p.yaml:1: upstream.certificates: must be a list",
        ),
        (
            "upstream:\n  certificates:\n    - key: k.pem\n",
            "p.yaml:3: upstream.certificates[0].certificate: is missing",
        ),
    ] {
        let (_, said) = file(yaml);
        let said = said.join("\n");
        assert!(said.contains(expected), "{yaml}:\n{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[test]
fn flags_name_hosts_before_what_is_for_them() {
    let config = read(&options(&[
        "--upstream-proxy",
        "*.corp.example=direct",
        "--upstream-proxy",
        "http://anna:p=ss@p.example:3128",
        "--upstream-certificate",
        "a.example=c.pem,k.pem",
        "--certificate",
        "/etc/a=b.pem",
    ]))
    .unwrap();
    let hosts: Vec<String> = config
        .through
        .iter()
        .map(|it| it.hosts.to_string())
        .collect();
    assert_eq!(hosts, ["*.corp.example", "*"]);
    assert!(config.through[0].proxy.is_none() && config.through[1].proxy.is_some());
    assert_eq!(config.shown[0].hosts.to_string(), "a.example");
    assert_eq!(config.shown[0].key, Path::new("k.pem"));
    assert_eq!(config.own[0].certificate, Path::new("/etc/a=b.pem"));
    for (wrong, why) in [
        ("a b=direct", "has an invalid host pattern"),
        ("ftp://anna:secret@p.example", "has the scheme ftp://"),
        ("http://anna:secret@p.example/x", "has a path"),
        ("http://anna@p.example", "names a user without a password"),
        ("anna:secret@p.example", "is not the URL of a proxy"),
        ("", "is not the URL of a proxy"),
    ] {
        let said = match Command::try_parse_from(["proxy", "--upstream-proxy", wrong]) {
            Ok(command) => read(&command.options)
                .unwrap_err()
                .problem_lines()
                .join("\n"),
            Err(error) => error.to_string(),
        };
        // Errors must not repeat a password of the command line.
        assert!(!said.contains("secret"), "{said}");
        assert!(
            said.contains("--upstream-proxy") && said.contains(why),
            "{said}"
        );
    }
}

#[test]
fn refused_values_have_reasons_that_programs_can_match() {
    use config::{CertifiedError, NotAPlace, Pair, PairError, PinError, Through, ThroughError};
    let through = |text| Through::parse(text).unwrap_err();
    assert_eq!(through("http://anna@p.example"), ThroughError::NoPassword);
    assert!(matches!(through("a b=direct"), ThroughError::Hosts(_)));
    assert!(matches!(through("ftp://p.example"), ThroughError::Proxy(_)));
    assert_eq!(Pair::parse("a.example=,k.pem"), Err(PairError::NoFile));
    let port = config::certified("a.example:443");
    assert_eq!(port.unwrap_err(), CertifiedError::Port);
    let pin = |text| config::fingerprint(text).unwrap_err();
    assert_eq!(pin("AB:CD"), PinError::NoHost);
    assert!(matches!(pin("a.example=AB:CD"), PinError::Fingerprint(_)));
    assert_eq!(config::place("a.example").unwrap_err(), NotAPlace);
}

#[test]
fn a_password_comes_from_where_the_file_says() {
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("password.txt");
    lucarne_testkit::write_secret(&secret, "p@ss\n");
    let through = |text: &str| {
        let (config, said) = file(text);
        assert_eq!(said, Vec::<String>::new());
        open::through(&config).map_err(|error| format!("{error:#}"))
    };
    let given = through("upstream: {proxy: 'http://anna:p%40ss@p.example:1'}").unwrap();
    for password in [secret.display().to_string(), "exec: echo p@ss".to_owned()] {
        let text = format!(
            "upstream: {{proxy: {{url: 'http://anna@p.example:1', password: '{password}'}}}}"
        );
        assert_eq!(through(&text).unwrap(), given);
    }
    let text = "upstream: {proxy: {url: 'http://anna@p.example:1', password: 'env:NOT_SET_HERE'}}";
    let refused = through(text).unwrap_err();
    let expected =
        "the password of http://p.example:1: environment variable NOT_SET_HERE is not set";
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn records_of_requests_are_read() {
    let (config, said) = file(
        "accesslog: a.log\naccesslogformat: json\nhar: {file: s.har, hosts: '*.test', bodies: all}\n\
         secrets: true\n",
    );
    assert_eq!(said, Vec::<String>::new());
    assert!(config.access_log.unwrap().ends_with("a.log"));
    assert!(config.har.unwrap().ends_with("s.har"));
    assert_eq!(
        config.access_log_format,
        super::config::AccessLogFormat::Json
    );
    assert!(config.har_bodies && config.secrets && config.har_hosts.len() == 1);
    let (_, said) = file("accesslogformat: xml\nhar: {bodies: some}\n");
    let said = said.join("\n");
    for expected in [
        "p.yaml:1: accesslogformat: `xml` is neither `combined` nor `json`",
        "har.file: is missing",
        "p.yaml:2: har.bodies: `some` is neither `none` nor `all`",
    ] {
        assert!(said.contains(expected), "{expected} in\n{said}");
    }
}

#[test]
fn a_webhook_has_an_http_url() {
    for url in ["ftp://me:token@hook.example/", "hook", "file:///etc/secret"] {
        let (config, problems) = file(&format!("observe:\n  webhook: {url}\n"));
        assert!(config.webhook.is_none());
        let [problem] = &problems[..] else {
            panic!("{problems:?}");
        };
        assert!(
            problem.contains("observe.webhook") && !problem.contains("token"),
            "{problem}"
        );
    }
    let (config, problems) = file("observe: {database: i.sqlite, expirydays: 30}\n");
    assert!(
        problems.is_empty() && config.expiry_days == 30,
        "{problems:?}"
    );
    assert!(config.database.unwrap().ends_with("i.sqlite"));
}
