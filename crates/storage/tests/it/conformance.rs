//! The conformance tests for each back end.

mod memory {
    use async_trait::async_trait;
    use lucarne_storage::conformance::{AssetsBackend, LockBackend};
    use lucarne_storage::{Assets, Lock, MemoryAssets, MemoryLock};

    struct Memory<T>(T);

    #[async_trait]
    impl AssetsBackend for Memory<MemoryAssets> {
        async fn open(&self) -> Box<dyn Assets> {
            Box::new(self.0.clone())
        }
    }

    #[async_trait]
    impl LockBackend for Memory<MemoryLock> {
        async fn open(&self) -> Box<dyn Lock> {
            Box::new(self.0.clone())
        }
    }

    lucarne_storage::assets_conformance!(Memory(MemoryAssets::new()));
    lucarne_storage::lock_conformance!(Memory(MemoryLock::new()));
}

mod posix {
    use async_trait::async_trait;
    use lucarne_storage::Assets;
    use lucarne_storage::conformance::{AssetsBackend, PowerLoss};
    use tempfile::TempDir;

    struct Posix(TempDir);

    #[async_trait]
    impl AssetsBackend for Posix {
        async fn open(&self) -> Box<dyn Assets> {
            Box::new(crate::posix::open(&self.0))
        }
    }

    lucarne_storage::assets_conformance!(Posix(TempDir::new().unwrap()));

    mod watched {
        use super::*;

        struct Watched(TempDir);

        #[async_trait]
        impl AssetsBackend for Watched {
            async fn open(&self) -> Box<dyn Assets> {
                let assets = crate::posix::open(&self.0);
                Box::new(PowerLoss::new(assets))
            }
        }

        lucarne_storage::assets_conformance!(Watched(TempDir::new().unwrap()));
    }
}

mod sqlite {
    use async_trait::async_trait;
    use lucarne_storage::conformance::LockBackend;
    use lucarne_storage::{Lock, SqlLock};
    use tempfile::TempDir;

    struct Sqlite(TempDir);

    impl Sqlite {
        fn path(&self) -> String {
            self.0.path().join("locks.db").display().to_string()
        }

        async fn new() -> Self {
            let sqlite = Self(TempDir::new().unwrap());
            SqlLock::create(&sqlite.path()).await.unwrap();
            sqlite
        }
    }

    #[async_trait]
    impl LockBackend for Sqlite {
        async fn open(&self) -> Box<dyn Lock> {
            Box::new(SqlLock::open(&self.path()).await.unwrap())
        }
    }

    lucarne_storage::lock_conformance!(Sqlite::new().await);
}
