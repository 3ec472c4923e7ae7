//! Real certificates over HTTP: every chain of the corpus gets its expected verdict with both
//! values of `require`. One process has a log for each file of roots and each value.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, run};
use lucarne_ct::EntryKind;
use lucarne_testkit::{Audit, Case, Client, Corpus, Place, Response, corpus};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The values of `require`, and the suffix of the log's name for each.
const REQUIRE: [(&str, &str); 2] = [("any", "any"), ("server_auth", "tls")];

#[test]
fn every_chain_gets_its_verdict() {
    judge_at(Place::directory());
}

#[test]
fn every_chain_gets_its_verdict_on_s3_and_mariadb() {
    judge_at(run(Place::s3_and_mariadb()).unwrap());
}

#[test]
fn every_chain_gets_its_verdict_on_s3_alone() {
    judge_at(run(Place::s3_alone()).unwrap());
}

fn judge_at(place: Place) {
    let Some(corpus) = corpus() else { return };
    let cases = corpus.cases().unwrap();
    let mut logs = BTreeMap::new();
    for file in fs::read_dir(corpus.path().join("roots")).unwrap() {
        let pem = file.unwrap().path();
        let roots = pem.file_stem().unwrap().to_string_lossy();
        for (require, suffix) in REQUIRE {
            let settings = format!("roots: {}\nrequire: {require}", pem.display());
            logs.insert(format!("{roots}-{suffix}"), settings);
        }
    }
    let at = format!("{place:?}");
    let logs_of_site = logs.iter().map(|(name, set)| (name.as_str(), set.clone()));
    let site = Site::create_at(place, logs_of_site);
    let mut server = site.start();
    let wrong = run(async {
        for name in logs.keys() {
            site.ready(name).await;
        }
        let audits: BTreeMap<_, _> = logs
            .keys()
            .map(|name| (name.clone(), Arc::new(auditor(&site, &corpus, name))))
            .collect();
        let wrong = judge_all(&site, &corpus, cases, &audits).await;
        let mut entries = 0;
        for audit in audits.values() {
            let report = audit.run().await.unwrap();
            report.assert_clean();
            entries += report.size;
        }
        println!("{at}: {} logs, {entries} entries", audits.len());
        wrong
    });
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

fn auditor(site: &Site, corpus: &Corpus, log: &str) -> Audit {
    let (roots, _) = log.rsplit_once('-').unwrap();
    site.audit(log, &corpus.roots_pem(roots).unwrap())
}

/// Submits every case to its two logs, several concurrently.
async fn judge_all(
    site: &Site,
    corpus: &Corpus,
    cases: Vec<Case>,
    audits: &BTreeMap<String, Arc<Audit>>,
) -> Vec<String> {
    let at_a_time = Arc::new(Semaphore::new(16));
    let mut judging = JoinSet::new();
    for case in cases {
        let chain = corpus.chain(&case).unwrap();
        for (require, suffix) in REQUIRE {
            let name = format!("{}-{suffix}", case.roots);
            let submission = Submission {
                client: site.client_of(&name),
                audit: audits[&name].clone(),
                body: chain.to_json(),
                length: chain.certificates().len(),
                server_auth_required: require == "server_auth",
                case: case.clone(),
            };
            let turn = at_a_time.clone();
            judging.spawn(async move {
                let _turn = turn.acquire().await.unwrap();
                let judged = submission.judge().await;
                judged.err().map(|wrong| format!("{name}: {wrong}"))
            });
        }
    }
    judging.join_all().await.into_iter().flatten().collect()
}

struct Submission {
    client: Client,
    audit: Arc<Audit>,
    body: String,
    length: usize,
    server_auth_required: bool,
    case: Case,
}

impl Submission {
    /// Submits the chain, and returns the difference from the expected response.
    async fn judge(&self) -> Result<(), String> {
        let case = &self.case;
        let path = format!("ct/v1/{}", case.endpoint);
        let answer = self.client.post(&path, self.body.clone()).await.unwrap();
        let not_for_servers = self.server_auth_required && !case.server_auth;
        let said = format!("{}: {} {}", case.file, answer.status, answer.text());
        if case.accept && !not_for_servers {
            if answer.status != 200 {
                return Err(format!("{said}\nshould be accepted: {}", case.why));
            }
            let kind = match case.endpoint.as_str() {
                "add-chain" => EntryKind::X509,
                _ => EntryKind::Precert,
            };
            let body = self.body.as_bytes();
            self.audit.promised(kind, body, &answer.body);
            return Ok(());
        }
        let code = self.explained(&answer).ok_or(said.clone())?;
        if case.accept && code != "missing_server_auth" {
            return Err(format!("{said}\nonly lacks serverAuth"));
        }
        Ok(())
    }

    /// Returns the code of a refusal, if the response explains the refusal completely.
    fn explained(&self, answer: &Response) -> Option<String> {
        if answer.status != 400 {
            return None;
        }
        let refusal = answer.json().ok()?;
        let index = refusal.get("certificate_index")?;
        let in_chain = index.as_u64().is_some_and(|i| i < self.length as u64);
        let code = refusal["code"].as_str()?;
        let stable = |c: u8| c == b'_' || c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = (index.is_null() || in_chain)
            && !code.is_empty()
            && code.bytes().all(stable)
            && refusal["error"].as_str()? == "the submission was refused"
            && refusal["detail"].as_str()?.len() > 10;
        good.then(|| code.to_owned())
    }
}
