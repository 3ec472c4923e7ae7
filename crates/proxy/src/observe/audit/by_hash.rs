//! Look-up of entries in a log of RFC 6962, by their hash.

use std::sync::Arc;

use lucarne_ct::{ListedLog, SignedTreeHead};
use lucarne_net::ClientError;
use lucarne_tlog::{Hash, verify_consistency, verify_inclusion};
use serde::Deserialize;
use serde_json::json;

use super::super::filter::encoded;
use super::super::inventory::{Due, Finding, Head};
use super::Failure;
use super::paced::Paced;

pub(super) struct ByHash {
    log: Arc<ListedLog>,
    responses: Paced,
}

/// Response to `get-proof-by-hash` (RFC 6962, section 4.5).
#[derive(Deserialize)]
struct Inclusion {
    leaf_index: u64,
    audit_path: Vec<String>,
}

/// Response to `get-sth-consistency` (RFC 6962, section 4.4).
#[derive(Deserialize)]
struct Consistency {
    consistency: Vec<String>,
}

impl ByHash {
    pub(super) fn new(responses: Paced, log: Arc<ListedLog>) -> Self {
        ByHash { log, responses }
    }

    pub(super) async fn head(&self) -> Result<Head, Failure> {
        let note = self.responses.get("ct/v1/get-sth").await?;
        let sth = SignedTreeHead::verify_json(&note, &self.log.key)?;
        let (size, root) = (sth.checkpoint.size, sth.checkpoint.root);
        Ok(Head {
            size,
            root,
            timestamp: sth.timestamp,
            note: note.into(),
        })
    }

    pub(super) async fn extends(&self, old: &Head, new: &Head) -> Result<(), Failure> {
        let path = format!(
            "ct/v1/get-sth-consistency?first={}&second={}",
            old.size, new.size
        );
        let body = self.responses.get(&path).await?;
        let parsed: Consistency = serde_json::from_slice(&body)
            .map_err(|error| Failure::Response("get-sth-consistency", error.to_string()))?;
        let proof = hashes("get-sth-consistency", &parsed.consistency)?;
        let verified = verify_consistency(old.size, &old.root, new.size, &new.root, &proof);
        verified.map_err(|why| {
            let proof = json!({"reason": why.to_string(), "consistency": parsed.consistency});
            Failure::TwoHistories(Box::new(proof))
        })
    }

    pub(super) async fn look_up(&self, due: &Due, head: &Head) -> Result<Finding, Failure> {
        let (hash, size) = (due.leaf.to_string(), head.size);
        if size == 0 {
            return Ok(Finding::Missing(json!({"reason": "the tree is empty"})));
        }
        let path = format!(
            "ct/v1/get-proof-by-hash?hash={}&tree_size={size}",
            encoded(&hash)
        );
        let body = match self.responses.get(&path).await {
            Ok(body) => body,
            Err(ClientError::Status(status, _)) if matches!(status.as_u16(), 400 | 404) => {
                let why = format!("get-proof-by-hash responded with status {status}");
                return Ok(Finding::Denied(json!({"reason": why})));
            }
            Err(error) => return Err(error.into()),
        };
        let proof: Inclusion = serde_json::from_slice(&body)
            .map_err(|error| Failure::Response("get-proof-by-hash", error.to_string()))?;
        let index = proof.leaf_index;
        let path = hashes("get-proof-by-hash", &proof.audit_path)?;
        Ok(
            match verify_inclusion(&due.leaf, index, size, &head.root, &path) {
                Ok(()) => Finding::Included,
                Err(why) => Finding::Denied(json!({
                    "reason": format!("the log's proof does not verify: {why}"),
                    "index": index, "auditPath": proof.audit_path,
                })),
            },
        )
    }
}

fn hashes(of: &'static str, base64: &[String]) -> Result<Vec<Hash>, Failure> {
    let hashes = base64.iter().map(|hash| Hash::from_base64(hash));
    let wrong = || Failure::Response(of, "a hash is not 32 bytes in base64".to_owned());
    hashes.collect::<Option<_>>().ok_or_else(wrong)
}
