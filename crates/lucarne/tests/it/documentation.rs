//! The documentation matches the program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use lucarne::documentation;

fn file_of(name: &str) -> PathBuf {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    docs.join(name)
}

fn document(name: &str) -> String {
    let file = file_of(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The tables of keys in the pages are those of the definitions in the program. With
/// `LUCARNE_WRITE=1`, the test writes them.
#[test]
fn tables_of_keys_are_generated() {
    let write = std::env::var_os("LUCARNE_WRITE").is_some();
    let tables = documentation::documented();
    let pages: BTreeSet<_> = tables.iter().map(|table| table.page).collect();
    for page in pages {
        let text = document(page);
        let mut generated = text.clone();
        let of_page = tables.iter().filter(|table| table.page == page);
        for table in of_page.clone() {
            let begin = format!("<!-- keys: {} -->\n", table.name);
            let (before, rest) = generated
                .split_once(&begin)
                .unwrap_or_else(|| panic!("docs/{page} has no line {begin}"));
            let (_, after) = rest.split_once(END_OF_KEYS).expect("the end of the table");
            generated = format!("{before}{begin}{}{END_OF_KEYS}{after}", table.markdown);
        }
        assert_eq!(text.matches("<!-- keys: ").count(), of_page.count());
        if write {
            std::fs::write(file_of(page), generated).unwrap();
        } else {
            assert!(
                text == generated,
                "docs/{page}: the tables of keys are stale: run `LUCARNE_WRITE=1 cargo test -p \
                 lucarne --test it tables_of_keys`"
            );
        }
    }
}

/// Line after a generated table.
const END_OF_KEYS: &str = "<!-- end of keys -->\n";

/// `docs/images/deployments.svg` is drawn from `deployments.dot`: it has every text of the source.
#[test]
fn the_picture_shows_its_source() {
    let picture = document("images/deployments.svg");
    let source = document("images/deployments.dot");
    let labels = source.split("label=\"").skip(1);
    let labels: Vec<_> = labels.filter_map(|rest| rest.split('"').next()).collect();
    assert!(labels.len() > 10, "{labels:?}");
    for line in labels.iter().flat_map(|label| label.split("\\n")) {
        assert!(picture.contains(&format!(">{line}</text>")), "{line}");
    }
}

/// The first screen of the README has at most 350 words, and its table at most six rows.
#[test]
fn the_readme_begins_with_one_screen() {
    let page = document("../README.md");
    let (screen, rest) = page.split_once("\n## ").unwrap();
    let words = screen.split_whitespace().count();
    assert!(words <= 350, "{words} words");
    let rows = rest.lines().filter(|line| line.starts_with("| ")).count();
    assert!((2..=7).contains(&rows), "{rows} rows with the header");
}

/// The page creates the directory of a signer's memory before the commands that use it.
#[test]
fn a_signer_is_set_up_in_order() {
    let text = document("how-to/signer.md");
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?}"));
    let memory = "/var/lib/lucarne-signer";
    assert!(text.contains(&format!("memory: {memory}")));
    let made = text
        .lines()
        .find(|line| line.trim_start().starts_with("install -d") && line.contains(memory));
    let made = place(made.expect("nothing makes the directory"));
    for later in [
        "signer.yaml first-use",
        "signer.yaml adopt",
        "systemctl enable",
    ] {
        assert!(made < place(later), "{later}");
    }
}

/// `docs/reference/metrics.md` has a row for every metric family of the sources, and no other.
#[test]
fn every_metric_is_documented() {
    let text = document("reference/metrics.md");
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<_> = rows
        .map(|name| name.trim_end_matches("_total").to_owned())
        .collect();
    let registered = registered_families();
    assert!(registered.len() > 80, "{registered:?}");
    let difference = |a: &BTreeSet<String>, b: &BTreeSet<String>| -> Vec<String> {
        a.difference(b).cloned().collect()
    };
    let missing = difference(&registered, &documented);
    assert!(
        missing.is_empty(),
        "not in docs/reference/metrics.md: {missing:?}"
    );
    let unknown = difference(&documented, &registered);
    assert!(
        unknown.is_empty(),
        "only in docs/reference/metrics.md: {unknown:?}"
    );
}

/// Returns the metric families that the sources of the product register, with their units.
fn registered_families() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for product in ["http", "log", "lucarne", "proxy"] {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(product);
        for file in files_below(&sources.join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            if text.contains("prometheus_client") {
                found.extend(families_of(text, &file));
            }
        }
    }
    found
}

/// Returns the family of each name that is followed by a help text, in a call or a tuple.
fn families_of(text: &str, file: &Path) -> Vec<String> {
    let word = |rest: &str| rest.split('"').next().unwrap().to_owned();
    let after = |start: &str| text.split(start).nth(1).map(word);
    let prefix = after(", prefix \"")
        .or_else(|| after("sub_registry_with_prefix(\""))
        .or_else(|| Some(after("format!(\"")?.strip_suffix("_{name}")?.to_owned()));
    let mut families = Vec::new();
    for (at, _) in text.match_indices('(') {
        let Some(rest) = text[at + 1..].trim_start().strip_prefix('"') else {
            continue;
        };
        let name = word(rest);
        let help = rest[name.len() + 1..].trim_start().strip_prefix(',');
        let help = help.and_then(|help| help.trim_start().strip_prefix('"'));
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let is_help = |help: &str| help.starts_with(|c: char| c.is_ascii_uppercase() || c == '1');
        if !name.bytes().all(is_name) || !help.is_some_and(is_help) {
            continue;
        }
        // The unit follows the help text, or is in an `Option` in a descriptor.
        let after_help = help.and_then(|help| help.split_once('"')).unwrap().1;
        let after_help = after_help.trim_start_matches([',', ' ', '\n']);
        let unit = after_help
            .strip_prefix("Some(&")
            .unwrap_or(after_help)
            .strip_prefix("Unit::");
        let unit = unit.map_or(String::new(), |unit| {
            let end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap();
            format!("_{}", unit[..end].to_ascii_lowercase())
        });
        families.push(match &prefix {
            _ if name.starts_with("lucarne_") || name.starts_with("process_") => {
                format!("{name}{unit}")
            }
            Some(prefix) => format!("{prefix}_{name}{unit}"),
            None => panic!("{}: {name} has no prefix", file.display()),
        });
    }
    families
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

const UNITS: [&str; 3] = [
    "lucarne.service",
    "lucarne-signer.service",
    "lucarne-proxy.service",
];

/// The version of `systemd-analyze` on this machine.
fn analyzer() -> Option<u32> {
    let mut version = Command::new("systemd-analyze");
    let output = version.arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().nth(1)?.parse().ok()
}

/// The exposure that `systemd-analyze` computes for a unit, from 0 to 10.
fn exposure(unit: &str) -> f64 {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to");
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager"]);
    let output = analyze.arg(units.join(unit)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("Overall exposure"));
    let number = line.and_then(|line| line.rsplit(": ").next()?.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{unit}: {output:?}"))
}

#[test]
fn units_confine_their_services() {
    // Older versions only know units that are installed.
    if analyzer().is_none_or(|version| version < 250) {
        return println!("skipped: systemd-analyze 250 or newer is not installed");
    }
    for unit in UNITS {
        let exposure = exposure(unit);
        assert!(exposure <= 2.0, "{unit}: {exposure}");
    }
}

/// A service that fails five times in ten seconds is still started again.
#[test]
fn units_restart_without_a_limit() {
    for unit in UNITS {
        let text = document(&format!("how-to/{unit}"));
        let has = |line: &str| assert!(text.lines().any(|found| found == line), "{unit}: {line}");
        has("StartLimitIntervalSec=0");
        has("Type=notify");
        assert!(text.contains("\nRestart="), "{unit}");
    }
}

/// `docs/how-to/deploy/service.md` creates every directory in its configuration and in the unit.
#[test]
fn the_system_service_has_its_directories() {
    let page = document("how-to/deploy/service.md");
    let made = |line: &str| -> Vec<PathBuf> {
        let words = line.split_whitespace().filter(|word| word.starts_with('/'));
        words.map(PathBuf::from).collect()
    };
    let install = page.lines().map(str::trim);
    let made: Vec<_> = install
        .filter(|line| line.starts_with("install -d "))
        .flat_map(made)
        .collect();
    let (_, yaml) = page.split_once("```yaml\n   listen:").unwrap();
    let (yaml, _) = yaml.split_once("```").unwrap();
    let unit = document("how-to/lucarne.service");
    let needed = unit
        .lines()
        .filter(|line| line.starts_with("ReadWritePaths="));
    let needed = needed.chain(yaml.lines()).flat_map(|line| {
        let line = line.split(" #").next().unwrap();
        line.split([' ', '=']).filter(|word| word.starts_with('/'))
    });
    let needed: Vec<_> = needed.map(Path::new).collect();
    assert!(needed.len() >= 6, "{needed:?}");
    for path in needed {
        let is_made = made.iter().any(|made| path.starts_with(made));
        assert!(
            is_made,
            "docs/how-to/deploy/service.md creates no directory for {}",
            path.display()
        );
    }
}
