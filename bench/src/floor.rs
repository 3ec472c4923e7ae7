//! The floor: a bare hyper server that decodes a chain, verifies the leaf's signature, signs as
//! many bytes as an SCT has, and responds. The difference to a log's cost is the cost of the log
//! itself.

use std::{convert::Infallible, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use aws_lc_rs::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, ParsedPublicKey,
        RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    },
};
use base64_simd::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming};
use lucarne_mint::der::{DerError, Reader};
use lucarne_testkit::{Launch, free_port, usage};

use crate::{
    Common, answering,
    chains::{Issuer, Store},
    load::{self, Arrivals, Plan},
};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Number of keep-alive HTTP/1.1 connections
    #[arg(long, default_value_t = 1000)]
    connections: usize,
}

#[derive(Clone, clap::Args)]
pub(crate) struct ServerOptions {
    /// Address to listen on
    #[arg(long)]
    listen: SocketAddr,
    /// Issuing certificate in DER
    #[arg(long)]
    issuer: PathBuf,
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let store = Store::open(&common.store)?;
    let cpu = measure(common, &store, options.connections)?;
    println!(
        "floor (hyper, decode, verify RSA-2048, sign P-256): {cpu:.1} µs of server CPU per request"
    );
    Ok(())
}

/// Measures the CPU per request of the floor server, in microseconds.
pub(crate) fn measure(common: &Common, store: &Store, connections: usize) -> Result<f64> {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (_, issuer) = store.sample(Issuer::Rsa)?;
    let file = common.store.join("issuer.der");
    std::fs::write(&file, issuer)?;
    let server = Launch::new(std::env::current_exe()?)
        .args(["floor-server", "--listen", &address.to_string(), "--issuer"])
        .arg(&file)
        .pin(common.server_core)
        .start(address)?;
    let chains = 100_000;
    let mut requests = store.submissions(
        Issuer::Rsa,
        chains,
        &address.to_string(),
        "/ct/v1/add-chain",
        0.0,
    )?;
    let plan = Plan {
        connections,
        arrivals: Arrivals::Closed,
        warm_up: Duration::from_secs(1),
        duration: Duration::from_secs(4),
    };
    let mut marks = Vec::new();
    let outcome = load::run(address, &plan, &mut requests, &mut || {
        marks.push(usage(server.pid())?.cpu_us);
        Ok(())
    })?;
    ensure!(
        outcome.failures.is_empty(),
        "requests to the floor server failed: {:?}",
        outcome.failures
    );
    Ok((marks[1] - marks[0]) as f64 / outcome.answered.max(1) as f64)
}

/// Serves until the process is killed.
pub(crate) fn serve(options: &ServerOptions) -> Result<()> {
    let file = options.issuer.display();
    let issuer = std::fs::read(&options.issuer).with_context(|| format!("cannot read {file}"))?;
    let key = spki(&issuer).with_context(|| format!("the certificate in {file} has no key"))?;
    let floor = Arc::new(Floor {
        issuer: ParsedPublicKey::new(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, key)?,
        key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(answering::forever(options.listen, move |request| {
        answer(floor.clone(), request)
    }))
}

struct Floor {
    issuer: ParsedPublicKey,
    key: EcdsaKeyPair,
}

#[derive(serde::Deserialize)]
struct Submission<'a> {
    #[serde(borrow)]
    chain: Vec<&'a str>,
}

async fn answer(
    floor: Arc<Floor>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let (status, text) = match floor.sct(&body) {
        Ok(text) => (200, text),
        Err(error) => (400, error.to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    Ok(response)
}

impl Floor {
    fn sct(&self, body: &[u8]) -> Result<String> {
        let submission: Submission<'_> = serde_json::from_slice(body)?;
        let chain: Result<Vec<Vec<u8>>, _> = submission
            .chain
            .iter()
            .map(|text| STANDARD.decode_to_vec(text))
            .collect();
        let chain = chain?;
        let leaf = chain
            .first()
            .context("expected a chain with a leaf, found an empty chain")?;
        let mut parts = Reader::new(leaf).any("leaf")?.reader();
        let tbs = parts.any("TBS")?.raw;
        parts.any("algorithm")?;
        let signature = &parts.any("signature")?.value[1..];
        self.issuer.verify_sig(tbs, signature)?;
        let sct = self.key.sign(&SystemRandom::new(), leaf)?;
        Ok(format!(
            "{{\"sct_version\":0,\"id\":\"vajQ/CaKPdKwq3De7U+r1exMHdq4cu1OxwlURya7KaI=\",\
             \"timestamp\":1788269845000,\"extensions\":\"AAAFAAAAAAA=\",\"signature\":\"{}\"}}",
            STANDARD.encode_to_string(sct.as_ref())
        ))
    }
}

/// Returns the SubjectPublicKeyInfo of a version 3 certificate.
fn spki(certificate: &[u8]) -> Result<&[u8], DerError> {
    let mut certificate = Reader::new(certificate).any("certificate")?.reader();
    let mut tbs = certificate.any("TBS")?.reader();
    for _version_to_subject in 0..6 {
        tbs.any("field")?;
    }
    Ok(tbs.any("key")?.raw)
}
