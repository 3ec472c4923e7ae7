//! Entries that TesseraCT has sequenced but not yet published. For a log in a bucket, TesseraCT
//! keeps these entries in a separate database.

use lucarne_log::Published;
use lucarne_net::counted;
use lucarne_storage::{SqlLock, TesseraState};

use super::findings::{Findings, Verdict};
use crate::config::LockPlace;

/// Instructions for the operator, if Lucarne cannot query the database.
const ASK: &str = "stop submissions, wait until the published size no longer grows, stop the old \
     software, query its database with `SELECT next FROM SeqCoord WHERE id = 0` (Spanner: `gcloud \
     spanner databases execute-sql DATABASE --instance=INSTANCE --sql='…'`), and give the result \
     with \
     --sequenced";

/// Compares the number of sequenced entries with the published size.
pub(super) async fn look(
    lock: &LockPlace,
    sequenced: Option<u64>,
    published: &Published,
    findings: &mut Findings,
) {
    if let Some(sequenced) = sequenced {
        return compare(
            sequenced,
            published.size,
            "according to --sequenced",
            findings,
        );
    }
    let LockPlace::Server(url) = lock else {
        let why = format!("the promised size is only in TesseraCT's database: {ASK}");
        return findings.add("database", Verdict::Unknown, &why);
    };
    match SqlLock::tessera(url).await {
        Ok(Some(state)) => integrated(&state, published, findings),
        Ok(None) => {
            let why = format!("{lock} has no tables of TesseraCT: {ASK}");
            findings.add("database", Verdict::Unknown, &why);
        }
        Err(error) => findings.add("database", Verdict::Unknown, &error.to_string()),
    }
}

fn integrated(state: &TesseraState, published: &Published, findings: &mut Findings) {
    let same = state.integrated == published.size && state.root == published.root.0;
    if state.sequenced > published.size || same {
        return compare(
            state.sequenced,
            published.size,
            "according to its database",
            findings,
        );
    }
    let why = format!(
        "TesseraCT's database has {}, and {} are published with another root: the \
         database belongs to another log, or was restored",
        counted(state.integrated, "entry"),
        published.size
    );
    findings.refused("database", &why);
}

fn compare(sequenced: u64, published: u64, source: &str, findings: &mut Findings) {
    if sequenced == published {
        let why = format!("all entries that TesseraCT has promised are published, {source}");
        return findings.right("database", &why);
    }
    let entries = counted(sequenced, "entry");
    let why = if sequenced > published {
        format!(
            "TesseraCT has promised {entries} and published {published}: start \
             TesseraCT again without submissions, wait until all entries are published, and stop \
             TesseraCT"
        )
    } else {
        format!(
            "TesseraCT has promised {entries}, {source}, but published {published}: this \
             database belongs to another log, or was restored"
        )
    };
    findings.refused("database", &why);
}
