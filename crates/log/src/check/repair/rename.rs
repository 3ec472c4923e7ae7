//! Damaged fingerprints of issuers, restored from the rest of their chains.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::{Fingerprint, Roots};
use lucarne_ctread::Source;
use lucarne_tlog::Tile;
use tokio::task::spawn_blocking;

use super::offer::stored;
use crate::check::fsck::tiles::tile;
use crate::check::fsck::{Finding, Problem};
use crate::check::unsigned::{
    Accepted, Chains, Issuers, OnlyMention, PartsError, is_damaged_form, named,
};

/// A damaged fingerprint, and the correct fingerprint.
type Rename = (Fingerprint, Fingerprint);

/// Returns the data tiles of these findings with the right fingerprints, as a log stores them. Only
/// damage may explain the old fingerprint, and each chain with a new fingerprint must lead to an
/// accepted root.
pub(super) async fn renamed(
    files: &Arc<dyn Source>,
    accepted: &Arc<Roots>,
    findings: &[Finding],
) -> Vec<(String, Bytes)> {
    let mut renames = BTreeMap::<String, Vec<Rename>>::new();
    for finding in findings {
        if let Problem::Parts(
            PartsError::Fingerprint { found, expected } | PartsError::Completed { found, expected },
        ) = &finding.problem
            && is_damaged_form(found, expected)
        {
            let of_tile = renames.entry(finding.path.clone()).or_default();
            of_tile.push((*found, *expected));
        }
    }
    let mut offers = Vec::new();
    for (path, renames) in renames {
        let offer = data_tile(files, accepted, &path, renames).await;
        offers.extend(offer.map(|bytes| (path, bytes)));
    }
    offers
}

async fn data_tile(
    files: &Arc<dyn Source>,
    accepted: &Arc<Roots>,
    path: &str,
    renames: Vec<Rename>,
) -> Option<Bytes> {
    let data = Tile::parse(path).ok()?;
    let entries = tile(&**files, data).await.ok()?;
    let mut fingerprints = named(&entries);
    fingerprints.extend(renames.iter().map(|(_, expected)| *expected));
    let chains = Chains::of(files.clone());
    let issuers = chains.issuers(fingerprints).await;
    let accepted = Accepted::new(accepted.clone());
    let apply = move || apply(&renames, &entries, &accepted, &issuers);
    let entries = spawn_blocking(apply).await.ok().flatten()?;
    stored(data, entries.into())
}

fn apply(
    renames: &[Rename],
    entries: &[u8],
    accepted: &Accepted,
    issuers: &Issuers,
) -> Option<Vec<u8>> {
    let mut entries = entries.to_vec();
    for (found, expected) in renames {
        let mention = OnlyMention::of(found, &entries)?;
        entries = mention.replaced(expected, &entries)?;
        accepted.verify(&mention.leaf(&entries)?, issuers).ok()?;
    }
    Some(entries)
}
