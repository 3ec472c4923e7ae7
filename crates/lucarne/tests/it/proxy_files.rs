//! Files of certificates, passwords and secrets of `lucarne proxy`: mismatched files stop the
//! start, and replaced files are noticed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions, Time, pem};
use lucarne_testkit::{Launch, Server, Signal, TempDir, block_until, temp_dir};

use super::common::{EVENT_TIMEOUT, LUCARNE, assert_has};

/// Returns a certificate for these names, and its key.
fn pair(ca: &Authority, names: &[&str]) -> (String, String) {
    let options = LeafOptions::for_names(names.iter().copied()).unwrap();
    let leaf = ca.issue(&options).unwrap();
    (
        pem::encode("CERTIFICATE", &leaf),
        pem::encode("PRIVATE KEY", &options.key.to_pkcs8().unwrap()),
    )
}

fn authority(name: &str) -> Authority {
    Authority::root(&CaOptions::named(name, KeyType::EcdsaP256)).unwrap()
}

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Home(temp_dir())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        lucarne_testkit::write_secret(&path, text);
        path
    }

    fn launch(&self, config: &str) -> Launch {
        let config = self.write("proxy.yaml", config);
        Launch::new(LUCARNE)
            .args(["proxy", "--no-ui", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .directory(self.0.path())
    }

    fn refused(&self, config: &str, expected: &str) {
        let config = self.write("proxy.yaml", config);
        let output = Command::new(LUCARNE)
            .args(["proxy", "--no-ui", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .current_dir(self.0.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert_has(&said, expected);
    }
}

fn address(server: &mut Server) -> String {
    let said = server
        .wait_for_output("proxy on http://", EVENT_TIMEOUT)
        .unwrap();
    let address = said.split("proxy on http://").nth(1).unwrap();
    address.split_whitespace().next().unwrap().to_owned()
}

/// Returns whether a client that trusts only `ca` accepts the certificate for `host`. There is no
/// server behind the proxy, so the response does not matter.
fn believed(proxy: &str, ca: &Path, host: &str) -> bool {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "30", "--proxy"])
        .arg(format!("http://{proxy}"))
        .arg("--cacert")
        .arg(ca)
        .arg(format!("https://{host}/"))
        .env_remove("SSLKEYLOGFILE")
        .output()
        .unwrap();
    match output.status.code() {
        Some(0) => true,
        Some(60) => false,
        _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn a_replaced_certificate_is_served_without_a_restart() {
    let home = Home::new();
    let (first, second) = (authority("First"), authority("Second"));
    let roots = [&first, &second].map(|ca| pem::encode("CERTIFICATE", ca.cert_der()));
    let (one, two) = (
        home.write("1.pem", &roots[0]),
        home.write("2.pem", &roots[1]),
    );
    let (certificate, key) = pair(&first, &["*.own.test"]);
    home.write("own.pem", &certificate);
    home.write("own-key.pem", &key);
    let config = "certificates:\n  - {host: '*.own.test', certificate: own.pem, key: own-key.pem}\n\
                  resolve: ['*=127.0.0.1']\n";
    let mut server = home.launch(config).spawn().unwrap();
    let proxy = address(&mut server);
    let minted = home.0.path().join("lucarne-ca/ca.pem");
    assert!(believed(&proxy, &one, "www.own.test"));
    assert!(believed(&proxy, &minted, "www.other.test"));
    assert!(believed(&proxy, &minted, "a.b.own.test"));
    // The files are replaced one after the other. While certificate and key do not match, the proxy
    // keeps the old pair.
    let (certificate, key) = pair(&second, &["*.own.test"]);
    home.write("own.pem", &certificate);
    server
        .wait_for_output("stays as it was", EVENT_TIMEOUT)
        .unwrap();
    assert!(believed(&proxy, &one, "www.own.test"));
    home.write("own-key.pem", &key);
    server
        .wait_for_output("certificate read", EVENT_TIMEOUT)
        .unwrap();
    let start = Instant::now();
    while !believed(&proxy, &two, "www.own.test") {
        assert!(
            start.elapsed() < EVENT_TIMEOUT,
            "the old one is served still"
        );
    }
    server.stop(EVENT_TIMEOUT).unwrap();
}

#[test]
fn files_that_do_not_fit_stop_the_start() {
    let home = Home::new();
    let ca = authority("World");
    let ((certificate, key), (_, other)) = (pair(&ca, &["a.test"]), pair(&ca, &["a.test"]));
    home.write("a.pem", &certificate);
    home.write("a-key.pem", &key);
    home.write("other.pem", &other);
    for list in ["certificates:\n  - ", "upstream:\n  certificates:\n    - "] {
        home.refused(
            &format!("{list}{{certificate: a.pem, key: other.pem}}\n"),
            "other.pem: TLS cannot use the certificate: the private key does not belong to the \
             certificate",
        );
        home.refused(
            &format!("{list}{{certificate: a.pem}}\n"),
            "a.pem: the text has no PRIVATE KEY block",
        );
        home.refused(&format!("{list}{{certificate: none.pem}}\n"), "none.pem");
    }
    home.refused(
        "certificates:\n  - {host: b.test, certificate: a.pem, key: a-key.pem}\n",
        "a.pem is not for b.test: it names a.test",
    );
    home.refused(
        "certificates:\n  - {host: '*.b.test', certificate: a.pem, key: a-key.pem}\n",
        "a.pem is not for *.b.test: it names a.test",
    );
    home.refused(
        "certificates:\n  - {host: 'a.test:443', certificate: a.pem, key: a-key.pem}\n",
        "has a port",
    );
    home.refused(
        "upstream:\n  proxy: {url: 'http://anna@127.0.0.1:1', password: none.txt}\n",
        "the password of http://127.0.0.1:1: ",
    );
    // The message has the cause once.
    home.write("stores", "");
    home.refused(
        "storedirectory: stores\n",
        "stores: File exists (os error 17)\n",
    );
}

#[test]
fn a_ca_that_clients_refuse_is_reported_at_startup() {
    let home = Home::new();
    let mut options = CaOptions::named("Old", KeyType::EcdsaP256);
    options.not_before = Time::now().plus_days(-3);
    options.not_after = Time::now().plus_days(-1);
    let expired = Authority::root(&options).unwrap();
    std::fs::create_dir(home.0.path().join("lucarne-ca")).unwrap();
    home.write("lucarne-ca/ca-key.pem", &expired.to_pem().unwrap());
    let mut server = home.launch("resolve: ['*=127.0.0.1']\n").spawn().unwrap();
    address(&mut server);
    server
        .wait_for_output("lucarne-ca has expired", EVENT_TIMEOUT)
        .unwrap();
    server.stop(EVENT_TIMEOUT).unwrap();
}

#[test]
fn secrets_are_written_where_the_environment_says_and_nowhere_else() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let log = home.0.path().join("secrets.txt");
    for set in [false, true] {
        let mut launch = home.launch("resolve: ['*=127.0.0.1']\n");
        if set {
            launch = launch.env("SSLKEYLOGFILE", &log);
        }
        let mut server = launch.spawn().unwrap();
        let proxy = address(&mut server);
        let ca = home.0.path().join("lucarne-ca/ca.pem");
        assert!(believed(&proxy, &ca, "www.test"));
        server.stop(EVENT_TIMEOUT).unwrap();
        let warned = server.output().contains("SSLKEYLOGFILE is set");
        assert_eq!((warned, log.exists()), (set, set));
    }
    let lines = std::fs::read_to_string(&log).unwrap();
    for label in ["CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "] {
        assert_has(&lines, label);
    }
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    let output = Command::new(LUCARNE)
        .args(["proxy", "--no-ui", "--listen", "127.0.0.1:0"])
        .env("SSLKEYLOGFILE", home.0.path().join("none/secrets.txt"))
        .current_dir(home.0.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert_has(
        &String::from_utf8_lossy(&output.stderr),
        "which SSLKEYLOGFILE names",
    );
}

/// A Secret of Kubernetes with `fsGroup` has the mode 0440, and a volume for the store has the mode
/// 2770. The process cannot change these modes.
#[test]
fn secrets_that_only_a_group_of_the_process_can_read_are_used() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let set = |name: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(home.0.path().join(name), mode).unwrap();
    };
    for directory in ["lucarne-ca", "store"] {
        std::fs::create_dir(home.0.path().join(directory)).unwrap();
    }
    let ca = authority("Mounted").to_pem().unwrap();
    home.write("lucarne-ca/ca-key.pem", &ca);
    home.write("users", "anna:p@ss\n");
    let config = "users: users\nstoredirectory: store\nresolve: ['*=127.0.0.1']\n";
    for (name, mode) in [
        ("lucarne-ca/ca-key.pem", 0o440),
        ("users", 0o440),
        ("store", 0o2770),
    ] {
        set(name, mode);
    }
    let mut server = home.launch(config).spawn().unwrap();
    address(&mut server);
    server.stop(EVENT_TIMEOUT).unwrap();
    for name in ["ca-key.pem", "users", "store"] {
        assert_has(&server.output(), &format!("{name} is open to its group"));
    }
    for (name, closed) in [
        ("lucarne-ca/ca-key.pem", 0o440),
        ("users", 0o440),
        ("store", 0o2770),
    ] {
        set(name, closed | 0o004);
        home.refused(
            config,
            &format!("{name} is open to all users of this machine"),
        );
        set(name, closed);
    }
}

/// Returns the status of the proxy for this URL.
fn status(proxy: &str, url: &str) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "30", "--output", "/dev/null"])
        .args(["--write-out", "%{http_code}", "--proxy"])
        .args([&format!("http://{proxy}"), url])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn rules_are_read_again_on_sighup() {
    let home = Home::new();
    let rules = |denied: &str| format!("deny: [{denied}]\nresolve: ['*=127.0.0.1']\n");
    let mut server = home.launch(&rules("a.test")).spawn().unwrap();
    let proxy = address(&mut server);
    // The addresses of all hosts are refused, but `deny` is the first reason.
    let refused = |server: &Server, host: &str, reason: &str, times: usize| {
        assert_eq!(status(&proxy, &format!("http://{host}/")), "403");
        block_until(reason, || {
            let output = server.output();
            let lines = output.lines().filter(|line| line.contains(host));
            lines.filter(|line| line.contains(reason)).count() == times
        });
    };
    let (denied, address) = (
        "on the list of denied hosts",
        "The address 127.0.0.1 of the host",
    );
    refused(&server, "a.test", denied, 1);
    refused(&server, "b.test", address, 1);
    home.write("proxy.yaml", &rules("b.test"));
    server.signal(Signal::HUP).unwrap();
    server.wait_for_output("rules read", EVENT_TIMEOUT).unwrap();
    refused(&server, "a.test", address, 1);
    refused(&server, "b.test", denied, 1);
    // An invalid file changes nothing.
    home.write("proxy.yaml", "deny: [c.test]\nalow: [a.test]\n");
    server.signal(Signal::HUP).unwrap();
    server
        .wait_for_output("the rules stay as they were", EVENT_TIMEOUT)
        .unwrap();
    assert_has(&server.output(), "alow");
    refused(&server, "a.test", address, 2);
    refused(&server, "b.test", denied, 2);
    server.stop(EVENT_TIMEOUT).unwrap();
}
