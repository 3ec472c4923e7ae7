//! The certificates in the chains of entries.

use std::collections::HashMap;
use std::sync::Arc;

use lucarne_ct::Fingerprint;
use lucarne_tlog::Tile;

use super::leaf_tile::Place;
use super::tiles;
use super::{Checked, Finding, Problem};
use crate::check::unsigned::{Chains, PartsError};

/// Adds the problems with those issuers of a tile that no earlier tile refers to.
pub(super) async fn conclude(
    chains: Arc<Chains>,
    tile: Tile,
    mut checked: Checked,
    issuers: HashMap<Fingerprint, Place>,
) -> Checked {
    let mut wrong = Vec::new();
    for (issuer, place) in issuers {
        if !chains.is_known(&issuer) {
            let problem = problem(&chains, &issuer).await;
            chains.note(issuer, problem.is_none());
            wrong.extend(problem.map(|problem| (issuer, place, problem)));
        }
    }
    wrong.sort_by_key(|(issuer, place, _)| (place.entry, *issuer));
    for (issuer, place, problem) in wrong {
        let misnamed = match problem {
            Problem::Missing => misnamed(&chains, tile, issuer).await,
            _ => None,
        };
        let finding = match misnamed {
            // The entry is wrong: no certificate has this fingerprint.
            Some(error) => Finding {
                path: tile.path(),
                offset: Some(place.offset),
                entry: Some(place.entry),
                problem: error.into(),
            },
            None => Finding {
                path: format!("issuer/{issuer}"),
                offset: None,
                entry: Some(tile.start_leaf()),
                problem,
            },
        };
        checked.findings.push(finding);
    }
    checked
}

/// Returns the fault of the entry that names a missing issuer, if its fingerprint is damaged.
async fn misnamed(chains: &Arc<Chains>, tile: Tile, found: Fingerprint) -> Option<PartsError> {
    if let Some(expected) = chains.near(&found).await {
        return Some(PartsError::Fingerprint { found, expected });
    }
    let entries = tiles::tile(chains.files(), tile).await.ok()?;
    let expected = chains.completion(found, entries).await?;
    Some(PartsError::Completed { found, expected })
}

/// Returns the problem with the file of an issuer.
async fn problem(chains: &Chains, issuer: &Fingerprint) -> Option<Problem> {
    match chains.files().read(&format!("issuer/{issuer}")).await {
        Ok(Some(der)) if Fingerprint::of(&der) == *issuer => None,
        Ok(Some(_)) => Some(Problem::Issuer),
        Ok(None) => Some(Problem::Missing),
        Err(error) => Some(Problem::Unreadable(error)),
    }
}
