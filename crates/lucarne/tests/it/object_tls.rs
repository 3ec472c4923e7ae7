//! A store as in the clouds: behind TLS, with the bucket in the host name.

use std::sync::Arc;

use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, assert_has, eventually, pki, run};
use lucarne_mint::pem;
use lucarne_testkit::{Bucket, ObjectStore, Place, temp_dir, with_host_names};

const HERE: &str = "a_bucket_in_the_host_name_behind_tls";
const BUCKET: &str = "logs";

#[test]
fn a_bucket_in_the_host_name_behind_tls() {
    let host = format!("{BUCKET}.{}", ObjectStore::DOMAIN);
    if !with_host_names(HERE, &[ObjectStore::DOMAIN, &host]) {
        return;
    }
    let leaf = pki().leaf(&host);
    let certificate = pem::encode("CERTIFICATE", &pki().root.issue(&leaf).unwrap());
    let key = pem::encode("PRIVATE KEY", &pki().leaf_key.to_pkcs8().unwrap());
    let store = ObjectStore::minio_tls(&certificate, &key, BUCKET).unwrap();
    let bucket = Bucket {
        store: Arc::new(store),
        name: BUCKET.into(),
    };
    let directory = temp_dir();
    let roots = directory.path().join("store-roots.pem");
    std::fs::write(&roots, pki().root.certificate_pem()).unwrap();
    let mut place = Place::bucket(&bucket, None).virtual_hosted();
    let roots = roots.display().to_string();
    place.environment.push(("SSL_CERT_FILE", roots));

    let site = Site::prepare_at(place, temp_dir(), [("log", String::new())]);
    run(eventually("the store is ready", async || {
        site.lucarne(&["init"]).0 == 0
    }));
    let mut server = site.start();
    let load = site.load("log");
    let report = run(async {
        site.ready("log").await;
        for _ in 0..20 {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
        load.settle_accounts().await
    });
    report.assert_clean();
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());

    // The log sends no credentials to an untrusted server, and reports this at once, because
    // retries do not help.
    let untrusting = site.launch().env("SSL_CERT_FILE", "/dev/null");
    let output = untrusting.run().unwrap();
    assert!(!output.status.success());
    assert_has(&crate::common::all(&output), "certificate is not trusted");
}
