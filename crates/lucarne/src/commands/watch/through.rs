//! Comparison of a log with its public address, behind a cache, a CDN or a balancer (`--through`).

use lucarne_load::PrepareError;
use lucarne_scenarios::ct::fetch::{self, FetchError};
use lucarne_scenarios::ct::{LogOptions, TreeHead};

use super::log::{Look, Watched};

/// The public address of the log.
pub(super) struct Through {
    url: String,
    public: Watched,
    /// Tree size of the last comparison.
    compared: Option<u64>,
}

impl Through {
    /// Connects to the public address of `log`, whose key must sign its checkpoints.
    pub(super) async fn begin(
        log: &Watched,
        options: &LogOptions,
        url: &str,
    ) -> Result<Self, PrepareError> {
        let public = LogOptions {
            log_url: vec![url.to_owned()],
            origin: vec![log.origin.clone()],
            log_public_key: vec![base64_simd::STANDARD.encode_to_string(&log.spki)],
            ..options.clone()
        };
        Ok(Through {
            url: url.to_owned(),
            public: Watched::begin(&public).await?,
            compared: None,
        })
    }

    /// Checks the public address after the log's checkpoint `head`. Returns `head` if nothing is
    /// wrong.
    pub(super) async fn look(&mut self, log: &mut Watched, head: &TreeHead) -> Look {
        let public = match self.public.look().await {
            Look::Seen(public) => public,
            Look::Away(why, wait) => return Look::Away(format!("{}: {why}", self.url), wait),
            Look::Wrong(findings) => return self.wrong(findings),
        };
        if public.size == head.size && public.root != head.root {
            let size = head.size;
            return self.wrong(vec![format!(
                "the root of size {size} is {}, and the log itself has {}",
                public.root, head.root
            )]);
        }
        let size = public.size.min(head.size);
        if self.compared == Some(size) {
            return Look::Seen(*head);
        }
        match self.compare(log, size).await {
            Ok(findings) if findings.is_empty() => {
                self.compared = Some(size);
                Look::Seen(*head)
            }
            Ok(findings) => self.wrong(findings),
            Err(FetchError::Unreachable(why)) => Look::away(&why),
            Err(FetchError::Faulty(finding)) => self.wrong(vec![finding.to_string()]),
        }
    }

    /// Compares responses that depend on the query. A log without these resources has none to
    /// compare.
    async fn compare(&mut self, log: &mut Watched, size: u64) -> Result<Vec<String>, FetchError> {
        let mut findings = Vec::new();
        for path in with_queries(size) {
            let expected = match fetch::get(&log.fetcher, &path).await {
                Ok(expected) => expected,
                Err(FetchError::Faulty(_)) => continue,
                Err(unreachable) => return Err(unreachable),
            };
            match fetch::get(&self.public.fetcher, &path).await {
                Ok(bytes) if bytes == expected => {}
                Ok(_) => findings.push(format!(
                    "the response to {path} differs from the log's own: a cache may ignore the \
                     query"
                )),
                Err(FetchError::Faulty(finding)) => findings.push(finding.to_string()),
                Err(unreachable) => return Err(unreachable),
            }
        }
        Ok(findings)
    }

    fn wrong(&self, findings: Vec<String>) -> Look {
        let named = findings.iter().map(|it| format!("{}: {it}", self.url));
        Look::Wrong(named.collect())
    }
}

/// Returns reads of RFC 6962 in a tree of this size: for each path, several queries with different
/// responses.
fn with_queries(size: u64) -> Vec<String> {
    let first = 1..size.min(4);
    let proofs =
        first.map(|first| format!("ct/v1/get-sth-consistency?first={first}&second={size}"));
    let entries =
        (0..size.min(3)).map(|index| format!("ct/v1/get-entries?start={index}&end={index}"));
    proofs.chain(entries).collect()
}
