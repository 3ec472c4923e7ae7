//! Certificates as servers present them, with SCTs of logs whose private keys the tests have.

mod auditing;
mod inventory;
mod judging;
mod remembering;
mod submitting;
mod watching;

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lucarne_ct::{
    Certificate, Delivery, Issuer, LogKey, LogList, Roots, Sct, embedded_entry, encode_sct_list,
};
use lucarne_mint::testing::Pki;
use lucarne_mint::{Authority, Extension, LeafOptions, Template, now_ms, oid};
use lucarne_testkit::until;
use rustls::crypto::aws_lc_rs;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::issuer::Path;
use super::judge::{Judgement, SctDeliveries, Subject, judge};
use super::{ObserveOptions, Observer, SubmitTo, routes};

fn log_key(n: u8) -> LogKey {
    LogKey::from_seed(&[n; 32]).unwrap()
}

/// Returns a log list with these logs (number, operator, state); each state begins in 2026.
fn list_json(logs: &[(u8, &str, &str)]) -> Value {
    let operators = logs.iter().map(|(n, operator, state)| {
        let key = log_key(*n);
        json!({"name": operator, "logs": [{
            "description": format!("log {n}"),
            "log_id": key.log_id().to_string(),
            "key": base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
            "url": "https://log.example/",
            "state": {*state: {"timestamp": "2026-01-01T00:00:00Z"}}
        }]})
    });
    json!({"version": "7", "operators": operators.collect::<Vec<_>>()})
}

fn list(logs: &[(u8, &str, &str)]) -> LogList {
    LogList::parse(list_json(logs).to_string().as_bytes()).unwrap()
}

fn ca() -> &'static Authority {
    &Pki::shared().p256
}

fn template(options: &LeafOptions) -> Template {
    ca().leaf_template(options).unwrap()
}

/// Returns the SCTs of these logs for the certificate of `template`.
fn embedded_scts(template: &Template, logs: &[u8], timestamp_ms: u64) -> Vec<Sct> {
    let bare = ca().sign(template).unwrap();
    let bare = Certificate::parse(&bare).unwrap();
    let issuer = Certificate::parse(ca().cert_der()).unwrap();
    let entry = embedded_entry(&bare, &issuer);
    let sign = |n: &u8| log_key(*n).sign_sct(timestamp_ms, &entry, 7).unwrap();
    logs.iter().map(sign).collect()
}

fn embed(mut template: Template, list: &[u8]) -> Vec<u8> {
    let extension = Extension::new(oid::SCT_LIST, false, |der| der.octet_string(list));
    template.extensions.push(extension);
    ca().sign(&template).unwrap()
}

/// Returns a certificate for `name` with SCTs of these logs; without the extension if there are
/// none.
fn certificate(name: &str, logs: &[u8]) -> Vec<u8> {
    let template = template(&Pki::shared().leaf(name));
    match logs {
        [] => ca().sign(&template).unwrap(),
        logs => {
            let scts = embedded_scts(&template, logs, now_ms() - 1000);
            embed(template, &encode_sct_list(&scts).unwrap())
        }
    }
}

/// Returns the chain of a server: the leaf, and the intermediate that issued it.
fn chain(leaf: Vec<u8>) -> Vec<rustls_pki_types::CertificateDer<'static>> {
    vec![leaf.into(), ca().cert_der().to_vec().into()]
}

fn judged(leaf: &[u8], deliveries: &SctDeliveries, list: Option<&LogList>) -> Judgement {
    judged_with(leaf, &[issuer(ca())], &Roots::new(), deliveries, list)
}

fn issuer(ca: &Authority) -> Arc<Issuer> {
    Arc::new(Issuer::new(ca.cert_der().to_vec().into()))
}

fn judged_with(
    leaf: &[u8],
    sent: &[Arc<Issuer>],
    roots: &Roots,
    deliveries: &SctDeliveries,
    list: Option<&LogList>,
) -> Judgement {
    let path = &Path::of(leaf, sent, roots, |_| Vec::new());
    judge(
        &Subject {
            leaf,
            path,
            deliveries,
        },
        list,
        &[],
        now_ms(),
    )
}

/// Starts a server on loopback that responds with `respond`. Returns its URL, without a slash.
async fn serve<F>(respond: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static) -> String
where
    F: Future<Output = Response<Full<bytes::Bytes>>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let respond = respond.clone();
            let service = service_fn(move |request| {
                let response = respond(request);
                async move { Ok::<_, Infallible>(response.await) }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    url
}

fn tls() -> Arc<rustls::ClientConfig> {
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
    Arc::new(config)
}

fn get(observer: &Observer, path: &str, query: &str) -> (u16, String) {
    let response = routes(observer, path, query).unwrap();
    let body = String::from_utf8(response.body().to_vec()).unwrap();
    (response.status().as_u16(), body)
}

fn get_json(observer: &Observer, path: &str, query: &str) -> Value {
    let (status, body) = get(observer, path, query);
    assert_eq!(status, 200, "{path}?{query}: {body}");
    serde_json::from_str(&body).unwrap()
}
