//! Registry of scenarios by the names that plans and the command line use.

use std::sync::Arc;

use clap::builder::Resettable;
use clap::{Args, Command};
use lucarne_load::plan::Kind;
use lucarne_load::{PrepareError, Scenario};
use lucarne_settings::{Node, Report, typed};
use serde::de::DeserializeOwned;

use crate::connection_options::{ConnectionOptions, HandshakeOptions, HttpOptions};
use crate::{acme, ct, proxy, rest, s3, tls};

/// Threshold: every check of every scenario passes.
const CHECKS: &str = "checks: rate==1";
/// Threshold: requests have a valid response.
const FAILED: &str = "http_req_failed: rate<0.01";
/// Threshold: kept connections do not break under load.
const RESET: &str = "http_req_reset: rate<0.01";
/// Threshold: submissions are accepted and not throttled (429, 503).
const ACCEPTED: &str = "ct_accepted: rate>=0.99";
/// Threshold: reads are served and not throttled.
const THROTTLED: &str = "throttled: rate<0.01";

/// Thresholds of most kinds.
const USUAL: &[&str] = &[CHECKS, FAILED, RESET];

/// Returns the kind of this name.
#[must_use]
pub fn scenario(name: &str) -> Option<Kind> {
    scenarios().into_iter().find(|kind| kind.name == name)
}

/// Returns all kinds of scenarios.
#[must_use]
pub fn scenarios() -> Vec<Kind> {
    vec![
        kind("acme", &[], acme::build),
        kind("ct-write", &[], ct::write::build).demanding(&[CHECKS, FAILED, RESET, ACCEPTED]),
        kind("ct-read", &[], ct::read::build).demanding(&[CHECKS, FAILED, RESET, THROTTLED]),
        kind("s3", &[], s3::build),
        kind("rest", rest::STRUCTURED, rest::build),
        kind("proxy", &[], proxy::build),
        kind("tls", &[], tls::build),
    ]
}

/// Returns a kind with options `O`: its keys in a plan are its flags on the command line, and
/// `more` keys that have no flag.
fn kind<O>(
    name: &'static str,
    more: &'static [&'static str],
    build: fn(O, u64) -> Result<Arc<dyn Scenario>, PrepareError>,
) -> Kind
where
    O: Args + DeserializeOwned + Clone + Send + Sync + 'static,
{
    Kind::new(name, move |node, path, report| {
        let options: O = read(node, path, more, report)?;
        Some(Box::new(move |seed| build(options.clone(), seed)))
    })
    .demanding(USUAL)
}

/// Reads the options `O` from their keys in a plan, and from `more` keys that have no flag.
pub(crate) fn read<O: Args + DeserializeOwned>(
    node: &Node,
    path: &str,
    more: &[&str],
    report: &mut Report,
) -> Option<O> {
    let keys = keys::<O>();
    let known: Vec<&str> = keys.iter().map(String::as_str).collect();
    typed::read(node, path, &[&known, more].concat(), report)
}

/// Returns the options without any flags, that is, with the defaults of all flags. Environment
/// variables are ignored, because they are not defaults.
fn defaults<O: Args>() -> O {
    let flags = O::augment_args(Command::new("options").no_binary_name(true));
    let flags = flags.mut_args(|flag| flag.env(Resettable::Reset));
    flags
        .try_get_matches_from([""; 0])
        .and_then(|nothing| O::from_arg_matches(&nothing))
        .expect("every flag has a default, or can be left out")
}

macro_rules! defaults_of_flags {
    ($($options:ty),+ $(,)?) => {$(
        impl Default for $options {
            fn default() -> Self {
                defaults()
            }
        }
    )+};
}

defaults_of_flags! {
    HttpOptions,
    ConnectionOptions,
    HandshakeOptions,
    acme::AcmeOptions,
    ct::LogOptions,
    ct::SubmissionOptions,
    ct::write::CtWriteOptions,
    ct::read::CtReadOptions,
    s3::S3Options,
    rest::RestOptions,
    proxy::ProxyScenarioOptions,
    tls::TlsScenarioOptions,
}

/// Returns the plan keys of `O`: its long flags, in k6's camelCase.
#[must_use]
pub fn keys<O: Args>() -> Vec<String> {
    let command = O::augment_args(Command::new("options"));
    let flags = command.get_arguments().filter_map(|flag| flag.get_long());
    flags.map(camel_case).collect()
}

fn camel_case(flag: &str) -> String {
    let mut words = flag.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut key, word| {
        let mut letters = word.chars();
        key.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        key.push_str(letters.as_str());
        key
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use lucarne_settings::tree;

    use super::*;

    /// Checks that flags and keys of a plan have the same defaults, and that a plan accepts the key
    /// of every flag.
    fn flags_and_keys_agree<O: Args + DeserializeOwned + Debug>() {
        let command = O::augment_args(Command::new("options"));
        let matches = command.try_get_matches_from(["options"]).unwrap();
        let from_flags = O::from_arg_matches(&matches).unwrap();
        let known = keys::<O>();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let mut report = Report::on(None);
        let nothing = tree::parse("").unwrap();
        let from_keys: O = typed::read(&nothing, "", &known, &mut report).unwrap();
        assert_eq!(format!("{from_flags:?}"), format!("{from_keys:?}"));
        for key in known {
            // A list of maps is a wrong value of most options, but the error must not be an unknown
            // key.
            let yaml = format!("{key}: [{{ a: b }}]\n");
            let mut report = Report::on(None);
            let read: Option<O> =
                typed::read(&tree::parse(&yaml).unwrap(), "", &[key], &mut report);
            let said = report.problem_lines();
            let unknown = said.iter().any(|line| line.contains("no such key"));
            assert!(!unknown, "{key}: {said:?}");
            assert!(read.is_none() || key == "json", "{key}");
        }
    }

    #[test]
    fn every_flag_is_a_key() {
        flags_and_keys_agree::<acme::AcmeOptions>();
        flags_and_keys_agree::<ct::write::CtWriteOptions>();
        flags_and_keys_agree::<ct::read::CtReadOptions>();
        flags_and_keys_agree::<s3::S3Options>();
        flags_and_keys_agree::<proxy::ProxyScenarioOptions>();
        flags_and_keys_agree::<rest::RestOptions>();
        flags_and_keys_agree::<tls::TlsScenarioOptions>();
    }

    #[test]
    fn flags_become_keys() {
        assert_eq!(camel_case("not-after-start"), "notAfterStart");
        assert_eq!(camel_case("http2"), "http2");
    }
}
