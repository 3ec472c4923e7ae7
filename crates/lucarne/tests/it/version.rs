//! The version that the program prints.

use crate::common::lucarne;
use lucarne_testkit::temp_dir;

fn printed(flag: &str) -> String {
    let (code, said) = lucarne(temp_dir().path(), &[flag]);
    assert_eq!(code, 0, "{said}");
    said
}

#[test]
fn the_short_version_is_one_line() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(printed("-V"), format!("lucarne {version}\n"));
}

#[test]
fn the_long_version_describes_the_build() {
    let said = printed("--version");
    let mut lines = said.lines();
    let first = format!("lucarne {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(lines.next(), Some(first.as_str()));
    let mut value = |name: &str| {
        let value = lines.next().and_then(|line| line.strip_prefix(name));
        value.unwrap_or_else(|| panic!("no {name:?} in {said}"))
    };
    let commit = value("commit: ");
    let is_hash = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hash || commit == "unknown", "{commit}");
    let date = value("date: ");
    let is_date = date.parse::<jiff::civil::Date>().is_ok();
    assert!(is_date || date == "unknown", "{date}");
    let features: Vec<_> = value("features: ").split(", ").collect();
    assert_eq!(features.contains(&"proxy"), cfg!(feature = "proxy"));
    assert!(value("target: ").contains(std::env::consts::ARCH));
    assert_eq!(lines.next(), None);
}
