//! The files of the Debian package and of `deploy/compose.yaml` fit the pages of `docs`, and
//! those of `deploy/kubernetes` fit the command line.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::alerts::{at, list, read, text, yaml};
use crate::common::{EVENT_TIMEOUT, LUCARNE};
use lucarne_settings::{Node, Value};
use lucarne_testkit::{Launch, free_port, temp_dir};

/// The directories that hold a log or a key.
const KEPT: [&str; 6] = [
    "/etc/lucarne",
    "/etc/lucarne-signer",
    "/srv/lucarne",
    "/var/cache/lucarne",
    "/var/lib/lucarne-lock",
    "/var/lib/lucarne-signer",
];

/// Directory of the files that `deploy/generate` creates.
const GENERATED: &str = "../../target/generated/";

fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sources and destinations of the package's files.
fn assets() -> Vec<(String, String)> {
    let manifest = read("crates/lucarne/Cargo.toml");
    let (_, metadata) = manifest.split_once("[package.metadata.deb]").unwrap();
    let rows = metadata
        .lines()
        .filter_map(|line| line.trim().strip_prefix("[\""));
    let row = |row: &str| {
        let mut texts = row.split('"').step_by(2);
        let source = texts.next().unwrap().to_owned();
        (source, texts.next().unwrap().to_owned())
    };
    rows.map(row).collect()
}

#[test]
fn every_file_of_the_package_exists() {
    let assets = assets();
    assert!(assets.len() > 20, "{assets:?}");
    for (source, destination) in &assets {
        let path = Path::new(source);
        // The release builds the binary, and the binary generates these files.
        if source == "target/release/lucarne" || source.starts_with(GENERATED) {
            continue;
        }
        if path.file_stem().is_some_and(|stem| stem == "*") {
            let directory = crate_directory().join(path.parent().unwrap());
            let files = std::fs::read_dir(&directory).unwrap();
            let mut names = files.map(|file| file.unwrap().path());
            let found = names.any(|file| file.extension() == path.extension());
            assert!(found && destination.ends_with('/'), "{source}");
        } else {
            assert!(crate_directory().join(path).is_file(), "{source}");
        }
    }
    let destinations: BTreeSet<&str> = assets.iter().map(|(_, to)| to.as_str()).collect();
    for unit in ["lucarne", "lucarne-signer", "lucarne-proxy"] {
        let drop_in = format!("usr/lib/systemd/system/{unit}.service.d/package.conf");
        assert!(destinations.contains(drop_in.as_str()), "{drop_in}");
    }
}

/// `deploy/generate` creates every generated file of the package.
#[test]
fn generated_files_of_the_package_are_created() {
    let checkout = temp_dir();
    let root = checkout.path();
    std::fs::create_dir(root.join("deploy")).unwrap();
    let script = root.join("deploy/generate");
    std::fs::copy(crate_directory().join("../../deploy/generate"), &script).unwrap();
    let run = Command::new("/bin/sh").arg(&script).arg(LUCARNE).status();
    assert!(run.unwrap().success());
    let assets = assets();
    let generated: Vec<&str> = assets
        .iter()
        .filter_map(|(source, _)| source.strip_prefix(GENERATED))
        .collect();
    assert_eq!(generated.len(), 4, "{generated:?}");
    for name in generated {
        let path = root
            .join("target/generated")
            .join(name.replace('*', "lucarne-serve"));
        assert!(path.metadata().unwrap().len() > 1000, "{name}");
    }
}

/// The package has its binary in `/usr/bin`. Otherwise its commands equal the commands of the
/// units.
#[test]
fn the_units_of_the_package_run_the_documented_commands() {
    for unit in ["lucarne", "lucarne-signer", "lucarne-proxy"] {
        let documented = read(&format!("docs/how-to/{unit}.service"));
        let packaged = read(&format!("deploy/debian/{unit}.service.conf"));
        let commands = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| line.starts_with("ExecStart"));
            let lines = lines.filter(|line| !line.ends_with('='));
            lines.map(str::to_owned).collect()
        };
        let expected: Vec<String> = commands(&documented)
            .iter()
            .map(|line| line.replace("/usr/local/bin/", "/usr/bin/"))
            .collect();
        assert!(!expected.is_empty(), "{unit}");
        assert_eq!(commands(&packaged), expected, "{unit}");
        for command in expected {
            let (key, _) = command.split_once('=').unwrap();
            let reset = format!("{key}=\n{command}\n");
            assert!(packaged.contains(&reset), "{unit}: {key} is not reset");
        }
    }
}

/// The configuration of the package equals the configuration of `docs/how-to/deploy/service.md`,
/// with comments.
#[test]
fn the_configuration_of_the_package_is_the_documented_one() {
    let page = read("docs/how-to/deploy/service.md");
    let (_, documented) = page.split_once("```yaml\n   listen:").unwrap();
    let (documented, _) = documented.split_once("```").unwrap();
    let documented = format!("   listen:{documented}");
    let settings = |text: &str, indent: &str| -> Vec<String> {
        let lines = text
            .lines()
            .map(|line| line.strip_prefix(indent).unwrap_or(line));
        let lines = lines.map(|line| line.split('#').next().unwrap_or(line).trim_end());
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    let packaged = settings(&read("deploy/debian/lucarne.yaml"), "");
    assert!(packaged.len() > 10, "{packaged:?}");
    assert_eq!(packaged, settings(&documented, "   "));
}

/// A proxy starts with the configuration of the package, in other places.
#[test]
fn a_proxy_starts_with_the_configuration_of_the_package() {
    let directory = temp_dir();
    let (listen, admin) = (free_port(), free_port());
    let here = directory.path().display().to_string();
    let mut configuration = read("deploy/debian/proxy.yaml");
    for (from, to) in [
        ("127.0.0.1:3128", format!("127.0.0.1:{listen}")),
        ("127.0.0.1:3129", format!("127.0.0.1:{admin}")),
        ("/var/lib/lucarne-proxy", here),
    ] {
        assert!(configuration.contains(from), "{from}");
        configuration = configuration.replace(from, &to);
    }
    std::fs::write(directory.path().join("proxy.yaml"), configuration).unwrap();
    let launch = Launch::new(LUCARNE)
        .args(["proxy", "--config", "proxy.yaml", "--no-ui"])
        .directory(directory.path());
    let address = SocketAddr::from(([127, 0, 0, 1], listen));
    let mut proxy = launch.start(address).unwrap();
    assert!(proxy.stop(EVENT_TIMEOUT).unwrap().success());
    assert!(directory.path().join("ca/ca.pem").is_file());
}

/// Owner and mode of each directory equal the documented `install -d`.
#[test]
fn the_package_creates_the_documented_directories() {
    let tmpfiles = read("deploy/debian/tmpfiles.conf");
    let rows = tmpfiles.lines().filter(|line| line.starts_with("d "));
    let created: BTreeSet<Vec<String>> = rows
        .map(|row| {
            let words = row.split_whitespace().skip(1).take(3);
            words.map(|word| word.replace(':', "")).collect()
        })
        .collect();
    let mut documented = BTreeSet::new();
    for page in ["docs/how-to/deploy/service.md", "docs/how-to/signer.md"] {
        let page = read(page);
        for line in page.lines().map(str::trim) {
            if !line.starts_with("install -d ") {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let after = |flag: &str| {
                let place = words.iter().position(|word| *word == flag);
                words[place.unwrap() + 1].to_owned()
            };
            for path in words.iter().filter(|word| word.starts_with('/')) {
                documented.insert(vec![(*path).to_owned(), after("-m"), after("-o")]);
            }
        }
    }
    assert_eq!(created, documented);
    let paths: BTreeSet<&str> = created.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(paths, BTreeSet::from(KEPT));
}

/// A purge removes no file of a log, and states which directories it leaves.
#[test]
fn a_purge_keeps_data_lock_and_keys() {
    for script in ["postinst", "prerm", "postrm"] {
        let file = crate_directory().join("../../deploy/debian").join(script);
        let syntax = Command::new("/bin/sh").arg("-n").arg(&file).status();
        assert!(syntax.unwrap().success(), "{script}");
        let text = read(&format!("deploy/debian/{script}"));
        for word in text.split_whitespace() {
            let removes = ["rm", "rmdir", "unlink", "find", "deluser", "userdel"];
            assert!(!removes.contains(&word), "{script} has `{word}`");
        }
    }
    let postrm = crate_directory().join("../../deploy/debian/postrm");
    let purge = Command::new("/bin/sh").arg(postrm).arg("purge").output();
    let purge = purge.unwrap();
    assert!(purge.status.success(), "{purge:?}");
    let printed = String::from_utf8(purge.stdout).unwrap();
    let named: BTreeSet<&str> = printed.split_whitespace().collect();
    for path in KEPT {
        assert!(named.contains(path), "{path} is not in:\n{printed}");
    }
}

fn keys(node: &Node) -> Vec<&str> {
    match &node.value {
        Value::Map(entries) => entries.iter().map(|entry| entry.key.as_str()).collect(),
        other => panic!("line {}: expected a map, found {}", node.line, other.kind()),
    }
}

/// The commands of `deploy/compose.yaml` equal the commands of `docs/how-to/deploy/instances.md`.
#[test]
fn compose_runs_the_documented_commands() {
    let page = read("docs/how-to/deploy/instances.md");
    let pages = ["1", "2", "3"].map(|number| page.replace("$n", number));
    let compose = yaml("deploy/compose.yaml");
    let services = at(&compose, "services");
    let mut served = 0;
    for service in keys(services) {
        if ["s3", "mariadb"].contains(&service) {
            continue;
        }
        let command = list(at(at(services, service), "command"));
        let words: Vec<&str> = command.iter().map(text).collect();
        let command = format!("lucarne {}", words.join(" ").replace("/etc/lucarne/", ""));
        let found = pages.iter().any(|page| page.contains(&command));
        assert!(found, "{service}: `{command}` is not on the page");
        served += usize::from(words[0] == "serve");
    }
    assert_eq!(served, 3);
}

/// The configuration of an instance has the keys of the page, and only addresses differ.
#[test]
fn instances_of_compose_have_the_documented_configuration() {
    let page = read("docs/how-to/deploy/instances.md");
    let (_, documented) = page.split_once("<<END\n").unwrap();
    let (documented, _) = documented.split_once("\nEND\n").unwrap();
    let documented = lucarne_settings::tree::parse(documented).unwrap();
    let mut first = None;
    for number in ["1", "2", "3"] {
        let file = format!("deploy/compose/lucarne{number}.yaml");
        let instance = yaml(&file);
        let log = |node: &Node| -> BTreeSet<String> {
            let log = &list(at(node, "logs"))[0];
            keys(log).into_iter().map(str::to_owned).collect()
        };
        assert_eq!(log(&instance), log(&documented), "{file}");
        let text = read(&file);
        let general = text
            .replace(&format!("lucarne{number}:"), "lucarne$n:")
            .replace(&format!(":696{number}"), ":696$n")
            .replace(&format!(":697{number}"), ":697$n");
        let first = first.get_or_insert_with(|| general.clone());
        assert_eq!(general, *first, "{file}");
    }
}

/// The leader and the agents of `deploy/kubernetes/load.yaml` fit each other and the command line.
#[test]
fn jobs_of_kubernetes_have_valid_commands() {
    let file = read("deploy/kubernetes/load.yaml");
    let documents: Vec<Node> = file
        .split("---\n")
        .map(|document| lucarne_settings::tree::parse(document).unwrap())
        .collect();
    let [service, leader, agents] = &documents[..] else {
        panic!("expected a service and two jobs");
    };
    let arguments = |job: &Node| -> Vec<String> {
        let pod = at(at(at(job, "spec"), "template"), "spec");
        let container = &list(at(pod, "containers"))[0];
        let arguments = list(at(container, "args"));
        arguments.iter().map(|it| text(it).to_owned()).collect()
    };
    let (lead, agent) = (arguments(leader), arguments(agents));
    for arguments in [&lead, &agent] {
        let help = Command::new(LUCARNE)
            .args(&arguments[..2])
            .arg("--help")
            .output()
            .unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        for argument in arguments.iter().filter(|it| it.starts_with("--")) {
            let (flag, _) = argument.split_once('=').unwrap();
            assert!(help.contains(&format!("{flag} <")), "{flag}");
        }
    }
    let name = text(at(at(service, "metadata"), "name"));
    let port = text(at(&list(at(at(service, "spec"), "ports"))[0], "port"));
    assert!(lead.contains(&format!("--listen=:{port}")), "{lead:?}");
    assert_eq!(agent[2], format!("{name}:{port}"));
    for key in ["completions", "parallelism"] {
        let count = text(at(at(agents, "spec"), key));
        assert!(lead.contains(&format!("--agents={count}")), "{key}");
    }
}
