//! Log lists: the logs that a witness network, or the operators of browsers, publish.

use std::collections::HashSet;
use std::sync::Arc;

use lucarne_ct::{CheckpointVerifier, LogApi};

use crate::logs::{InvalidKey, ListedLog, TrustedKey};

/// First line of a list of a witness network.
const HEADER: &str = "logs/v0";

/// The logs of a list with their keys.
#[derive(Debug, Default)]
pub struct LogList {
    /// The usable logs.
    pub logs: Vec<ListedLog>,
    /// The logs that were skipped, each with the reason.
    pub skipped: Vec<String>,
}

/// The reasons why bytes are not a log list.
#[derive(Debug, thiserror::Error)]
pub enum InvalidList {
    /// The bytes are not UTF-8, or do not begin as a list.
    #[error("not a log list: expected JSON, or the line `{HEADER}`")]
    Header,
    /// A line of a log comes before its key.
    #[error("line {0}: expected `vkey` and the verifier key of a log")]
    Line(usize),
    /// The JSON is not a log list.
    #[error(transparent)]
    Json(#[from] lucarne_ct::LogListError),
}

impl LogList {
    /// Parses a list of a witness network (`logs/v0`), or a list of CT logs (version 3 of the JSON
    /// of Chrome and Apple), of which the logs with the static CT API are known by their origins.
    ///
    /// # Errors
    /// [`InvalidList`]; a single invalid log is skipped instead.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidList> {
        if bytes.trim_ascii_start().starts_with(b"{") {
            return Ok(Self::of_json(bytes)?);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| InvalidList::Header)?;
        let lines = text.lines().map(str::trim).zip(1..);
        let mut lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        if lines.next().is_none_or(|(line, _)| line != HEADER) {
            return Err(InvalidList::Header);
        }
        let mut listed: Vec<(&str, Option<&str>)> = Vec::new();
        for (line, number) in lines {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            match (name, listed.last_mut()) {
                ("vkey", _) if !value.is_empty() => listed.push((value, None)),
                ("vkey", _) | (_, None) => return Err(InvalidList::Line(number)),
                ("origin", Some((_, origin))) => *origin = Some(value),
                // The contact, for example.
                (_, Some(_)) => {}
            }
        }
        let mut list = Self::default();
        let mut origins = HashSet::new();
        for (vkey, origin) in listed {
            // Without a line `origin`, the name of the key is the origin.
            let name = vkey.split('+').next().unwrap_or_default();
            let origin = origin.unwrap_or(name);
            let key = TrustedKey::parse(origin, vkey);
            list.add(&mut origins, origin, key);
        }
        Ok(list)
    }

    fn of_json(json: &[u8]) -> Result<Self, lucarne_ct::LogListError> {
        let parsed = lucarne_ct::LogList::parse(json)?;
        let mut list = Self::default();
        list.skipped
            .extend(parsed.skipped().iter().map(ToString::to_string));
        let mut origins = HashSet::new();
        for log in parsed.iter() {
            // Logs of RFC 6962 have no checkpoints.
            if let LogApi::Static { submission_url, .. } = &log.api {
                let (_, origin) = submission_url.split_once("://").unwrap_or_default();
                let origin = origin.trim_end_matches('/');
                let key = CheckpointVerifier::new(origin, log.key.spki());
                let key = key.map(TrustedKey::Ct).map_err(InvalidKey::Ct);
                list.add(&mut origins, origin, key);
            }
        }
        Ok(list)
    }

    fn add<'o>(
        &mut self,
        origins: &mut HashSet<&'o str>,
        origin: &'o str,
        key: Result<TrustedKey, InvalidKey>,
    ) {
        match key {
            Ok(_) if !origins.insert(origin) => {
                self.skipped
                    .push(format!("the log {origin:?} is skipped: it is listed twice"));
            }
            Ok(key) => self.logs.push((origin.to_owned(), Arc::new(key))),
            Err(why) => self
                .skipped
                .push(format!("the log {origin:?} is skipped: {why}")),
        }
    }
}
