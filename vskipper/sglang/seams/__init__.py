"""The places of SGLang that the plugin patches or reads across versions, one small file each."""
