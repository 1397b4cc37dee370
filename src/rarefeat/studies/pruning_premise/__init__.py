"""Does pruning act as Theorem 3.2 says where the rare feature's neurons are the smallest?"""
