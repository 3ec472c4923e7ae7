//! Instances that do not match: `/health` and log lines name the difference, and their messages are
//! rejected.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use aws_lc_rs::{digest, hmac};
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_ct::EntryKind;
use lucarne_testkit::{Place, free_port};
use tokio::net::{TcpListener, TcpStream};

use super::group::{Instances, KEY, LOG};
use crate::common::load::Submission;
use crate::common::{EVENT_TIMEOUT, assert_has, edit, eventually, pki, run};

/// Creates three instances. The first leads, the second follows.
async fn two(change: impl FnOnce(&Instances)) -> Instances {
    let mut instances = Instances::create(Place::s3_alone().await.unwrap());
    change(&instances);
    instances.start(0);
    instances.reaches(0, "running").await;
    instances.start(1);
    instances.reaches(1, "following").await;
    instances
}

/// Checks that a submission to the second gets a 503, its health has the reason, and the log is
/// empty.
async fn is_put_off(instances: &Instances, why: &str) {
    let second = &instances.all[1];
    eventually("its health has the reason", async || {
        let submission = Submission::new(&pki().p256, EntryKind::X509);
        let answer = second.log().post("ct/v1/add-chain", submission.body).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, 503, "{}", answer.text());
        let health = second.health().await.unwrap();
        health["healthy"] == false && health.to_string().contains(why)
    })
    .await;
    assert_eq!(instances.audit(0).poll().await.unwrap(), 0);
}

/// Checks that the leader still accepts submissions.
async fn leader_goes_on(instances: &Instances) {
    let submission = Submission::new(&pki().p256, EntryKind::X509);
    let log = instances.all[0].log();
    let answer = log.post("ct/v1/add-chain", submission.body).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(instances.audit(0).poll().await.unwrap(), 1);
}

fn edit_second(instances: &Instances, from: &str, to: &str) {
    let file = &instances.all[1].file;
    edit(&instances.site.path().join(file), from, to);
}

#[test]
fn a_wrong_key_is_named() {
    run(async {
        let mut instances = two(|instances| {
            let wrong = instances.site.path().join("wrong.key");
            fs::write(&wrong, "another key, of thirty-two characters\n").unwrap();
            fs::set_permissions(&wrong, fs::Permissions::from_mode(0o600)).unwrap();
            edit_second(instances, "instances.key", "wrong.key");
        })
        .await;
        is_put_off(&instances, "has another key").await;
        let said = instances.server(0).output();
        assert_has(&said, "refused a peer without the key of `instances`");
        leader_goes_on(&instances).await;
    });
}

#[test]
fn another_configuration_is_named() {
    run(async {
        let mut instances = two(|instances| {
            let more = "key: instances.key}\n    notafterlimit: 2999-01-01T00:00:00Z";
            edit_second(instances, "key: instances.key}", more);
        })
        .await;
        is_put_off(&instances, "has another configuration of this log").await;
        let said = instances.server(0).output();
        assert_has(
            &said,
            "of an instance with another configuration of this log",
        );
        leader_goes_on(&instances).await;
    });
}

#[test]
fn an_address_that_is_not_reachable_is_named() {
    run(async {
        let nowhere = format!("127.0.0.1:{}", free_port());
        let mut instances = two(|instances| {
            let file = instances.site.path().join(&instances.all[0].file);
            let text = fs::read_to_string(&file).unwrap();
            let (before, rest) = text.split_once("address: \"").unwrap();
            let (own, after) = rest.split_once('"').unwrap();
            let text = format!("{before}address: \"{nowhere}\", listen: \"{own}\"{after}");
            fs::write(&file, text).unwrap();
        })
        .await;
        is_put_off(&instances, "refused").await;
        // `/health` is public, so only the log lines name the address.
        instances
            .server(1)
            .wait_for_output(&nowhere, EVENT_TIMEOUT)
            .unwrap();
        leader_goes_on(&instances).await;
    });
}

/// A follower of another version has the key, and sends a message that this version cannot parse.
#[test]
fn a_follower_of_another_version_is_named() {
    run(async {
        let mut instances = two(|_| ()).await;
        let address = instances.all[0].others;
        let answer = Peer::of(&instances).ask(address, "lucarne batch 0\n").await;
        // The status: another version.
        assert_eq!(&answer[..16], b"lucarne places2\n");
        assert_eq!(answer[16], 2);
        let words = "an instance sends an unknown format";
        instances
            .server(0)
            .wait_for_output(words, EVENT_TIMEOUT)
            .unwrap();
        assert_eq!(instances.audit(0).poll().await.unwrap(), 0);
        leader_goes_on(&instances).await;
    });
}

/// A leader of another version has the key, and responds with a message that this version cannot
/// parse.
#[test]
fn a_leader_of_another_version_is_named() {
    run(async {
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = other.local_addr().unwrap();
        let instances = two(|instances| {
            let file = instances.site.path().join(&instances.all[0].file);
            let own = instances.all[0].others.to_string();
            let more = format!("{address}\", listen: \"{own}");
            edit(&file, &own, &more);
            let peer = Arc::new(Peer::of(instances));
            tokio::spawn(async move { peer.answer(other, "lucarne places0\n").await });
        })
        .await;
        is_put_off(&instances, "has an incompatible version").await;
        leader_goes_on(&instances).await;
    });
}

/// A peer with the key of the instances that sends other messages.
struct Peer {
    key: hmac::Key,
    log: [u8; 32],
}

impl Peer {
    fn of(instances: &Instances) -> Self {
        Peer {
            key: hmac::Key::new(hmac::HMAC_SHA256, KEY.as_bytes()),
            log: instances.site.key(LOG).log_id().0,
        }
    }

    fn mark(&self, what: &str, number: &[u8], body: &[u8]) -> String {
        let sum = digest::digest(&digest::SHA256, body);
        let marked = [what.as_bytes(), &self.log, number, sum.as_ref()].concat();
        hex::encode(hmac::sign(&self.key, &marked))
    }

    /// Sends `body` to the instance at `address`, and returns its response.
    async fn ask(&self, address: SocketAddr, body: &'static str) -> Bytes {
        let tcp = TcpStream::connect(address).await.unwrap();
        let http = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut sender, connection) = http.handshake(TokioIo::new(tcp)).await.unwrap();
        tokio::spawn(connection);
        let number = [7; 16];
        let sum = digest::digest(&digest::SHA256, body.as_bytes());
        let mark = self.mark("lucarne instances 1 request\n", &number, body.as_bytes());
        let words = format!(
            "Lucarne-1 {} {} {mark}",
            hex::encode(number),
            hex::encode(sum)
        );
        let request = Request::post(format!("http://{address}/{}", hex::encode(self.log)))
            .header("authorization", words)
            .body(Full::<Bytes>::from(body))
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body().collect().await.unwrap().to_bytes()
    }

    /// Responds with `body` to all requests.
    async fn answer(self: Arc<Self>, listener: TcpListener, body: &'static str) {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let peer = Arc::clone(&self);
            let service = service_fn(move |request: Request<Incoming>| {
                let words = request.headers()["authorization"].to_str().unwrap();
                let number = hex::decode(words.split(' ').nth(1).unwrap()).unwrap();
                let mark = peer.mark("lucarne instances 1 response\n", &number, body.as_bytes());
                let mut answer = Response::new(Full::<Bytes>::from(body));
                let mark = HeaderValue::try_from(mark).unwrap();
                answer.headers_mut().insert("lucarne-mark", mark);
                async { Ok::<_, Infallible>(answer) }
            });
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http.serve_connection(TokioIo::new(tcp), service));
        }
    }
}

/// The second instance follows normally after its configuration is corrected.
#[test]
fn what_is_corrected_is_no_longer_said() {
    run(async {
        let more = "key: instances.key}\n    notafterlimit: 2999-01-01T00:00:00Z";
        let mut instances = two(|instances| {
            edit_second(instances, "key: instances.key}", more);
        })
        .await;
        is_put_off(&instances, "has another configuration of this log").await;
        instances.stop(1);
        edit_second(&instances, more, "key: instances.key}");
        instances.start(1);
        instances.reaches(1, "following").await;
        let log = instances.all[1].log();
        eventually("it takes its part", async || {
            let submission = Submission::new(&pki().p256, EntryKind::X509);
            let answer = log.post("ct/v1/add-chain", submission.body).await;
            answer.unwrap().status == 200
        })
        .await;
    });
}
