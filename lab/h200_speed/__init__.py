"""Speed on one NVIDIA H200: made-up models of the catalogue, measured by llama-bench and its kin, and by PyTorch."""
