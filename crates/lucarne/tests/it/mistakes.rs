//! Typical mistakes of operators: the whole output of each command, as a user sees the output.
//!
//! Each command has one snapshot in `snapshots/`. Paths, ports and times are replaced by fixed
//! words. After a change of a text, `INSTA_UPDATE=always cargo test -p lucarne --test it --
//! mistakes` writes the snapshots again. A command that does not end has the exit code 124.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use lucarne_testkit::{Launch, TempDir, free_port, temp_dir};

use crate::common::{LUCARNE, pki};

mod load;

/// Time limit of a command in seconds, as an argument of `timeout`.
const SECONDS: &str = "60";

/// Files and ports for the commands.
struct Workshop {
    directory: TempDir,
    /// A port without a listener.
    closed: u16,
    /// A listener on another port.
    taken: TcpListener,
}

impl Workshop {
    fn new() -> Self {
        let workshop = Workshop {
            directory: temp_dir(),
            closed: free_port(),
            taken: TcpListener::bind("127.0.0.1:0").unwrap(),
        };
        workshop.write("one.seed", &[7; 32]);
        workshop.write("short.seed", &[7; 31]);
        workshop.write("garbage.pem", b"neither key nor certificate\n");
        workshop.write("roots.pem", pki().root.certificate_pem().as_bytes());
        let good = configuration();
        let section = "witness:\n  name: w.example\n  secret: one.seed\n";
        let witness = format!("listen: 127.0.0.1:0\ncheckpoints: lock.db\n{section}");
        let signer = "socket: signer.sock\nmemory: memory\nusers: [0]\nlogs:\n  - origin: \
                      ct.example/one\n    secret: one.seed\n";
        for (file, text) in [
            ("lucarne.yaml", good.clone()),
            ("not-yaml.yaml", "logs: [\n".to_owned()),
            ("unknown-key.yaml", format!("{good}    perod: 20\n")),
            ("wrong-key.yaml", good.replace("one.seed", "short.seed")),
            ("no-key.yaml", good.replace("one.seed", "none.seed")),
            ("no-roots.yaml", good.replace("roots.pem", "none.pem")),
            ("taken.yaml", good.replace("127.0.0.1:0", "127.0.0.1:TAKEN")),
            (
                "away.yaml",
                good.replace("lock.db", "postgres://lucarne@127.0.0.1:CLOSED/locks"),
            ),
            ("witness-logs.yaml", format!("{good}{section}")),
            (
                "witness-key.yaml",
                witness.replace("one.seed", "short.seed"),
            ),
            (
                "witness-list.yaml",
                format!("{witness}  logs: [nonsense, w.example]\n  loglists: [\"ftp://a/b\"]\n"),
            ),
            ("signer.yaml", signer.to_owned()),
            ("signer-key.yaml", format!("{signer}sockt: signer.sock\n")),
            (
                "signer-no-key.yaml",
                signer.replace("one.seed", "none.seed"),
            ),
            (
                "proxy-key.yaml",
                "listen: [\"127.0.0.1:0\"]\nlifetme: 24h\n".to_owned(),
            ),
            ("plan.yaml", plan("rest", "rate: 10", "url")),
            ("plan-key.yaml", plan("rest", "rat: 10", "url")),
            ("plan-option.yaml", plan("rest", "rate: 10", "ulr")),
            ("plan-kind.yaml", plan("rst", "rate: 10", "url")),
        ] {
            workshop.write(file, workshop.with_ports(&text).as_bytes());
        }
        workshop
    }

    /// Writes a file that only its owner can read, as the commands require of keys.
    fn write(&self, name: &str, bytes: &[u8]) {
        let file = self.directory.path().join(name);
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn taken(&self) -> u16 {
        self.taken.local_addr().unwrap().port()
    }

    fn with_ports(&self, text: &str) -> String {
        text.replace("CLOSED", &self.closed.to_string())
            .replace("TAKEN", &self.taken().to_string())
    }

    /// Replaces the parts of an output that differ from run to run.
    fn with_words(&self, text: &str) -> String {
        let directory = self.directory.path();
        let resolved = directory.canonicalize().unwrap();
        let text = text
            .replace(&resolved.display().to_string(), "DIR")
            .replace(&directory.display().to_string(), "DIR")
            .replace(&self.closed.to_string(), "CLOSED")
            .replace(&self.taken().to_string(), "TAKEN");
        text.split_inclusive('\n').map(without_time).collect()
    }

    /// Runs `lucarne` in the directory to its end, without the environment of the test.
    fn lucarne(&self, arguments: &str) -> Output {
        Launch::new("env")
            .args(["-i", "timeout", SECONDS, LUCARNE])
            .args(self.with_ports(arguments).split_whitespace())
            .directory(self.directory.path())
            .run()
            .unwrap()
    }
}

/// Returns a line of output with the word `TIME` for the duration of a check and its speeds.
fn without_time(line: &str) -> String {
    match line.split_once(" checked in ") {
        Some((what, _)) => format!("{what} checked in TIME\n"),
        None => line.to_owned(),
    }
}

/// Returns a valid configuration of a log that does not exist yet.
fn configuration() -> String {
    "listen: [\"127.0.0.1:0\"]\n\
     checkpoints: lock.db\n\
     logs:\n  \
     - shortname: one\n    \
     submissionprefix: https://ct.example/one/\n    \
     secret: one.seed\n    \
     localdirectory: data\n    \
     cache: cache\n    \
     roots: roots.pem\n"
        .to_owned()
}

/// Returns a plan of one second with a closed port as target.
fn plan(kind: &str, rate: &str, url: &str) -> String {
    format!(
        "scenarios:\n  s:\n    scenario: {kind}\n    executor: constant-arrival-rate\n    {rate}\n    \
         duration: 1s\n    options:\n      {url}: http://127.0.0.1:CLOSED/\nthresholds:\n  \
         http_req_failed: rate<0.01\n"
    )
}

/// Splits standard error into plain lines, and lines of the log without their times. A separate
/// thread writes the log, so the order between the two kinds is undefined.
fn sorted(stderr: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut plain, mut logged) = (Vec::new(), Vec::new());
    for line in stderr.lines() {
        match line.split_once(' ') {
            Some((time, rest)) if is_time(time) => logged.push(rest.trim_start()),
            _ => plain.push(line),
        }
    }
    (plain, logged)
}

/// Returns whether the word begins like `2026-01-31T` and ends with `Z`.
fn is_time(word: &str) -> bool {
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        _ => byte.is_ascii_digit(),
    };
    let mut start = word.bytes().take(11).enumerate();
    word.len() > 11 && word.ends_with('Z') && start.all(shape)
}

/// Runs a case in a directory of its own. Commands before the last one, separated by `&&`, prepare
/// the directory and must succeed.
fn outcome(title: &str, commands: &str) -> String {
    let workshop = Workshop::new();
    let mut commands: Vec<&str> = commands.split(" && ").collect();
    let arguments = commands.pop().unwrap();
    for command in commands {
        let prepared = workshop.lucarne(command);
        assert!(prepared.status.success(), "{command}: {prepared:?}");
    }
    let output = workshop.lucarne(arguments);
    let text = |bytes: &[u8]| workshop.with_words(&String::from_utf8_lossy(bytes));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let (plain, logged) = sorted(&stderr);
    let mut page = format!("## {title}\n$ lucarne {arguments}\n");
    for (source, lines) in [
        ("stdout", stdout.lines().collect()),
        ("stderr", plain),
        ("log", logged),
    ] {
        for line in lines {
            page.push_str(format!("{source}: {line}").trim_end());
            page.push('\n');
        }
    }
    let code = output.status.code();
    let code = code.map_or("none".to_owned(), |code| code.to_string());
    page + &format!("exit code: {code}\n\n")
}

/// Compares the output of all cases of a command with its snapshot.
#[track_caller]
fn compare(command: &str, cases: &[(&str, &str)]) {
    let pages = cases.iter().map(|(title, commands)| {
        let commands = commands.replace('$', command);
        outcome(title, &commands)
    });
    let name = command.replace(' ', "_");
    insta::assert_snapshot!(name, pages.collect::<String>());
}

#[test]
fn serve() {
    compare(
        "serve",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("not YAML", "$ -c not-yaml.yaml"),
            ("an unknown key", "$ -c unknown-key.yaml"),
            ("a key of the wrong length", "$ -c wrong-key.yaml"),
            ("a file without its option", "$ lucarne.yaml"),
            ("an unknown option", "$ --confg lucarne.yaml"),
            ("a log that was never created", "$ --log error"),
            ("an address in use", "init && $ -c taken.yaml --log error"),
            (
                "a wrong key by flags",
                "$ --origin=ct.example/one --http-endpoint=127.0.0.1:0 --storage-dir=data \
                 --private-key=garbage.pem --roots-pem-file=roots.pem",
            ),
        ],
    );
}

#[test]
fn check() {
    compare(
        "check",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c unknown-key.yaml"),
            ("a missing key", "$ -c no-key.yaml"),
            ("missing roots", "$ -c no-roots.yaml"),
            ("a lock that does not respond", "$ -c away.yaml"),
            ("a file without its option", "$ lucarne.yaml"),
            ("an unknown option", "$ --before-strat"),
            ("an incomplete option", "$ --before"),
        ],
    );
}

#[test]
fn init() {
    compare(
        "init",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c unknown-key.yaml"),
            ("a key of the wrong length", "$ -c wrong-key.yaml"),
            ("a lock that does not respond", "$ -c away.yaml"),
            ("a file without its option", "$ lucarne.yaml"),
            ("an unknown option", "$ --force"),
        ],
    );
}

#[test]
fn adopt() {
    compare(
        "adopt",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c unknown-key.yaml"),
            ("an unknown log", "$ two"),
            ("two options that exclude each other", "$ --follow --check"),
            ("an unknown option", "$ --sequencd 5"),
        ],
    );
}

#[test]
fn give_back() {
    compare(
        "give-back",
        &[
            ("no software", "$ one"),
            ("unknown software", "$ --to itko"),
            ("a missing configuration", "$ --to sunlight -c none.yaml"),
            ("an unknown key", "$ --to sunlight -c unknown-key.yaml"),
            ("an unknown log", "$ --to sunlight two"),
            ("a directory that does not exist", "$ --to sunlight"),
        ],
    );
}

#[test]
fn fsck() {
    compare(
        "fsck",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c unknown-key.yaml"),
            ("an unknown log", "$ two"),
            ("a missing directory", "$ --at none"),
            ("a directory without a log", "$ --at ."),
            (
                "a server that does not respond",
                "$ --at http://127.0.0.1:CLOSED/",
            ),
            (
                "a wrong key",
                "$ --at . --origin ct.example/one --log-public-key garbage.pem",
            ),
            ("an option without another", "$ --origin ct.example/one"),
        ],
    );
}

#[test]
fn repair() {
    compare(
        "repair",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c unknown-key.yaml"),
            ("a missing directory", "$ --at none"),
            ("missing roots", "init && $ --roots none.pem"),
            ("a missing source", "init && $ --from none"),
            (
                "two options that exclude each other",
                "$ --dry-run --state x",
            ),
        ],
    );
}

#[test]
fn lock_show() {
    compare(
        "lock show",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c unknown-key.yaml"),
            ("an unknown log", "$ two"),
            ("a missing lock", "$"),
            ("a lock that does not respond", "$ -c away.yaml"),
        ],
    );
}

#[test]
fn lock_rebuild() {
    compare(
        "lock rebuild",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c unknown-key.yaml"),
            ("an unknown log", "$ two"),
            (
                "a place that is not requested",
                "$ --without https://mirror.example/",
            ),
            ("a directory that does not exist", "$"),
            ("an unknown option", "$ --overwrite"),
        ],
    );
}

#[test]
fn journal_list() {
    compare(
        "journal list",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c unknown-key.yaml"),
            ("an unknown log", "$ two"),
            ("a directory that does not exist", "$"),
            ("an unknown option", "$ --all"),
        ],
    );
}

#[test]
fn keygen() {
    compare(
        "keygen",
        &[
            ("no file", "$"),
            ("a missing directory", "$ -f none/one.seed"),
            ("a file that is not a key", "$ -f garbage.pem"),
            ("a seed of the wrong length", "$ -f short.seed"),
            ("an unknown option", "$ --out one.seed"),
        ],
    );
}

#[test]
fn signer() {
    compare(
        "signer",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c signer-key.yaml"),
            ("a missing key", "$ -c signer-no-key.yaml"),
            ("the configuration of a server", "$ -c lucarne.yaml"),
            ("an unknown origin", "$ first-use ct.example/two"),
            ("a missing checkpoint", "$ adopt none.txt"),
            ("a file that is not a checkpoint", "$ adopt garbage.pem"),
        ],
    );
}

#[test]
fn witness() {
    compare(
        "witness",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("the configuration of logs", "$ -c lucarne.yaml"),
            ("logs in the configuration", "$ -c witness-logs.yaml"),
            ("a short seed", "$ -c witness-key.yaml"),
            ("wrong logs", "$ -c witness-list.yaml"),
        ],
    );
}

#[test]
fn demo() {
    compare(
        "demo",
        &[
            ("an address without a port", "$ --listen nowhere"),
            ("an address in use", "$ --listen 127.0.0.1:TAKEN"),
            (
                "a file in place of the directory",
                "$ --dir one.seed --listen 127.0.0.1:0",
            ),
            ("too few instances", "$ --instances 1"),
            ("an unknown option", "$ --port 6962"),
        ],
    );
}

#[test]
fn proxy() {
    compare(
        "proxy",
        &[
            ("a missing configuration", "$ -c none.yaml"),
            ("an unknown key", "$ -c proxy-key.yaml"),
            ("an address without a port", "$ --listen nowhere"),
            ("an unknown kind of key", "$ --key-type dsa"),
            (
                "an upstream proxy of another protocol",
                "$ --upstream-proxy ftp://proxy.example",
            ),
            (
                "missing users",
                "$ --listen 127.0.0.1:0 --insecure --users none --log error",
            ),
            (
                "an address in use",
                "$ --listen 127.0.0.1:TAKEN --insecure --log error",
            ),
        ],
    );
}

#[test]
fn lint() {
    compare(
        "lint",
        &[
            ("no certificate", "$"),
            ("a missing certificate", "$ none.pem"),
            ("a file that is not a certificate", "$ garbage.pem"),
            ("a missing log list", "$ roots.pem --log-list none.json"),
            (
                "a file that is not a log list",
                "$ roots.pem --log-list garbage.pem",
            ),
            ("a date that does not exist", "$ roots.pem --at 2026-02-30"),
        ],
    );
}

#[test]
fn watch() {
    compare(
        "watch",
        &[
            ("no URL", "$ --once"),
            ("a URL without a scheme", "$ ct.example/one --once"),
            (
                "a log that does not respond",
                "$ http://127.0.0.1:CLOSED/ --once",
            ),
            (
                "a wrong key",
                "$ http://127.0.0.1:CLOSED/ --once --origin ct.example/one --log-public-key \
                 garbage.pem",
            ),
            (
                "a time that is not one",
                "$ http://127.0.0.1:CLOSED/ --every soon",
            ),
        ],
    );
}

#[test]
fn ca() {
    compare(
        "ca",
        &[
            ("no authorities", "$ show none"),
            ("a file in place of the directory", "$ new one.seed"),
            ("an unknown kind of key", "$ mint --key-type dsa"),
            ("a validity of no days", "$ mint --days 0"),
            ("a missing CA", "$ inspect none"),
            ("a file that is not a certificate", "$ inspect garbage.pem"),
        ],
    );
}

#[test]
fn generate() {
    compare(
        "generate",
        &[
            ("an unknown shell", "$ completions tcsh"),
            ("no directory", "$ man"),
            ("a file in place of the directory", "$ man one.seed"),
        ],
    );
}
