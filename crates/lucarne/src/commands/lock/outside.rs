//! Checkpoints from outside of this installation, for `lucarne lock rebuild`.

use anyhow::{Result, bail, ensure};
use lucarne_log::{KnownCheckpoint, KnownCheckpoints, LogConfig};
use lucarne_net::{counted, without_secrets};

use super::options::Rebuild;
use crate::config::{LogSettings, rfc3339};
use crate::known::{KnownPlaces, Place};

/// Places with known checkpoints, and the places that need not respond.
pub(super) struct Outside {
    places: KnownPlaces,
    without: Vec<String>,
}

impl Outside {
    /// Returns the places of the configuration, all of which must respond.
    pub(super) fn configured(log: &LogSettings) -> Outside {
        Outside {
            places: log.known_places(),
            without: Vec::new(),
        }
    }

    /// Collects the places of the configuration and of the command line.
    pub(super) fn of(log: &LogSettings, options: &Rebuild) -> Result<Outside> {
        let parse = |flag: &str, text: &String| {
            Place::parse(text)
                .map_err(|problem| anyhow::anyhow!("{flag} `{}` {problem}", without_secrets(text)))
        };
        let mut places = log.known_places();
        for known in &options.known {
            let place = parse("--known", known)?;
            if !places.0.contains(&place) {
                places.0.push(place);
            }
        }
        let mut without = Vec::new();
        for place in &options.without {
            let place = parse("--without", place)?;
            ensure!(
                places.0.contains(&place),
                "--without {place}: not a place of --known or `known_checkpoints`"
            );
            without.push(place.to_string());
        }
        Ok(Outside { places, without })
    }

    /// Reads the checkpoints of all places. A place without a valid checkpoint stops the command,
    /// because this place may have seen a larger tree. A place that the operator excludes
    /// (`--without`) does not stop the command; its name is returned.
    pub(super) async fn ask(
        &self,
        config: &LogConfig,
    ) -> Result<(Vec<KnownCheckpoint>, Vec<String>)> {
        let (mut known, mut silent) = (Vec::new(), Vec::new());
        for response in self.places.ask().await {
            let place = response.place.clone();
            match KnownCheckpoint::verify(response, config) {
                Ok(checkpoint) => known.push(checkpoint),
                Err(_) if self.without.contains(&place) => silent.push(place),
                Err(problem) => bail!(
                    "{place}: {problem}. This place may have more entries than the log. Retry when \
                     the place responds. Only if no client can have seen more entries there, \
                     continue with --without {place}"
                ),
            }
        }
        Ok((known, silent))
    }
}

/// Describes the checkpoints that the data were compared with.
pub(super) fn compared(known: &[KnownCheckpoint], silent: &[String], data: &str) -> String {
    let mut lines: Vec<String> = known
        .iter()
        .map(|known| {
            format!(
                "{} has {}, signed at {}: this log begins with these entries",
                known.place(),
                counted(known.size(), "entry"),
                rfc3339(known.timestamp_ms())
            )
        })
        .collect();
    lines.extend(silent.iter().map(|place| format!("{place} was skipped")));
    if known.is_empty() {
        lines.push(format!(
            "If any other place has more of this log than {data}, do not start the log: the log \
             would sign a fork"
        ));
    }
    lines.join("\n")
}
