//! The headers that a public bucket sends to a browser or a CDN.

use lucarne_storage::{Asset, AssetKind, Assets, Encoding, ObjectAssets};
use lucarne_testkit::{Bucket, Client};

#[tokio::test]
async fn a_bucket_serves_every_file_with_its_headers() {
    for bucket in [Bucket::versitygw().await, Bucket::minio().await] {
        let bucket = bucket.unwrap();
        let config = super::config(&bucket, "2026h1/");
        let assets = ObjectAssets::open(&config).await.unwrap();
        let forever = "public, max-age=31536000, immutable";
        let gzip = AssetKind::DataTile {
            encoding: Encoding::Gzip,
        };
        let plain = AssetKind::DataTile {
            encoding: Encoding::Identity,
        };
        let octets = "application/octet-stream";
        let text = "text/plain; charset=utf-8";
        let certificate = "application/pkix-cert";
        for (path, kind, content_type, cache, encoding) in [
            (
                "checkpoint",
                AssetKind::Checkpoint,
                text,
                "public, max-age=2",
                "",
            ),
            ("tile/0/000", AssetKind::HashTile, octets, forever, ""),
            ("tile/data/000", gzip, octets, forever, "gzip"),
            ("tile/data/001.p/7", plain, octets, forever, ""),
            ("issuer/00ff", AssetKind::Issuer, certificate, forever, ""),
            (
                "log.v3.json",
                AssetKind::LogJson,
                "application/json",
                "public, max-age=300",
                "",
            ),
        ] {
            let bytes = &b"\x1f\x8b as it is"[..];
            let asset = Asset::new(path, bytes, kind);
            assets.publish(vec![asset]).await.unwrap();
            let url = bucket.signed_get(&format!("2026h1/{path}")).unwrap();
            let client = Client::new(bucket.store.endpoint.clone());
            let answer = client.get(&url).await.unwrap();
            assert_eq!(answer.header("content-type"), content_type, "{path}");
            assert_eq!(answer.header("cache-control"), cache, "{path}");
            assert_eq!(answer.header("content-encoding"), encoding, "{path}");
            assert_eq!(answer.ok().unwrap(), bytes, "{path}");
            assert_eq!(assets.get(path).await.unwrap().unwrap(), bytes);
        }
    }
}
